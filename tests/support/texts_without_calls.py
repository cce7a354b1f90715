"""Texts that mention calls, and are none. Both tools that they mention are offered."""

NAMES = ["get_weather", "exec"]

TEXTS: dict[str, str] = {
    # ---- documentation of tool calling
    "a tag that is explained": "The model wraps each call in `<tool_call>` and `</tool_call>`; the server then parses it.",
    "a tag without backticks": "Hermes models write <tool_call>, a JSON object and </tool_call>. Nothing else is needed.",
    "a tag that is opened and left": "If a model writes <tool_call> and then stops, the engine reports a parse error.",
    "a placeholder": '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
    "placeholders in words": '<tool_call>{"name": "the name of the function", "arguments": {"parameter": "value"}}</tool_call>',
    "an ellipsis as the body": "<tool_call>…</tool_call> and <tools>…</tools> are two of the pairs that models use.",
    "a table of markers": (
        "| model | marker |\n| --- | --- |\n| Qwen | `<tool_call>` |\n| Mistral | `[TOOL_CALLS]` |\n"
        "| Granite | `<|tool_call|>` |\n"
        "| Kimi | `<|tool_calls_section_begin|>` |\n"
    ),
    "a list of markers": "- <tool_call>\n- <function=NAME>\n- [TOOL_CALLS]\n- functools\n- >>>NAME\n- Action:\n",
    "the definition of a tool": '{"name": "exec", "description": "Runs it.", "parameters": {"type": "object"}}',
    "the definition of a tool without a description": (
        '{"name": "exec", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}}'
    ),
    "tools repeated from the prompt": (
        '<tools>\n{"type": "function", "function": {"name": "exec", "description": "Runs a command.", "parameters": '
        '{"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}}}\n</tools>'
    ),
    "an empty list of tools": "<tools>\n</tools>\nNo tools are needed here.",
    "a tools element of a build file": "<tools>\n  <tool name='gcc' version='14'/>\n  <tool name='make'/>\n</tools>\n",
    "an instruction to call": "To call it, write <tool_call>, then JSON with `name` and `arguments`, then </tool_call>.",
    "a quoted prompt": (
        'The system prompt says: "For each function call, return a JSON object within <tool_call></tool_call>." So it does.'
    ),
    "a call in single quotation marks": 'Try \'<tool_call>{"name": "exec", "arguments": {}}</tool_call>\' in the playground.',
    "a call in quotation marks over lines": (
        'It printed "<function_calls>\n<invoke name="exec">\n<parameter name="cmd">ls</parameter>\n</invoke>\n'
        '</function_calls>" and stopped.'
    ),
    # ---- JSON
    "a JSON object": '{"name": "Paris", "population": 2102650}',
    "a JSON object about a tool": '{"name": "exec", "version": "1.2", "arguments": {"cmd": "string"}}',
    "a list of objects": '[{"name": "exec", "enabled": true}, {"name": "get_weather", "enabled": false}]',
    "a package file": '{\n  "name": "exec",\n  "version": "1.0.0",\n  "scripts": {"test": "jest"}\n}\n',
    "a log line": '{"level": "info", "tool": "exec", "arguments": {"cmd": "ls"}, "ms": 12}',
    "a response of an API": '{"id": "call_1", "type": "function_call", "name": "exec", "arguments": "{}"}',
    "a chat request": '{"model": "m", "messages": [], "tools": [{"type": "function", "function": {"name": "exec"}}]}',
    "an example and its explanation": (
        'For instance:\n\n{"name": "exec", "arguments": {"cmd": "ls"}}\n\nHere, `cmd` is the command that is run.'
    ),
    "two examples": (
        'Either\n{"name": "exec", "arguments": {"cmd": "ls"}}\nor\n{"name": "exec", "arguments": {"cmd": "dir"}}\nwill do.'
    ),
    "an example in a fence, and its explanation": (
        'The call looks like this:\n\n```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```\n\n'
        "The engine answers with the weather."
    ),
    "a fence with a comment": '```jsonc\n// a call\n{"name": "exec", "arguments": {"cmd": "ls"}}\n```\n',
    "a fence with two columns": '```\n{"name": "exec", "arguments": {}}   # runs a command\n```',
    "an object in a sentence": 'Send {"name": "exec", "arguments": {"cmd": "ls"}} to the socket.',
    "an object in a list item": '- {"name": "exec", "arguments": {"cmd": "ls"}} runs ls\n- [x] done\n',
    "an object after a word": 'Result: {"name": "exec", "arguments": {"cmd": "ls"}}',
    "YAML": "name: exec\narguments:\n  cmd: ls\n",
    "TOML": '[tool.exec]\nname = "exec"\narguments = { cmd = "ls" }\n',
    "INI sections": "[exec]\ncmd = ls\n[get_weather]\ncity = Paris\n",
    # ---- Python and other code
    "Python in a fence": '```python\nexec(cmd="ls")\n```\n',
    "Python in a fence, a list": '```python\ncalls = [exec(cmd="ls")]\n```\n',
    "Python in a fence, and prose": 'Use it so:\n```python\n[get_weather(city="Paris")]\n```\nand print the result.',
    "Python without a fence": 'exec(cmd="ls")\nprint(get_weather(city="Paris"))\n',
    "a list in Python that goes on": '[exec(cmd="ls"), get_weather(city="Paris")] is a list of calls.\n',
    "a list of calls with other values": '[exec(cmd="ls"), 42]\n',
    "a list of calls with positional arguments": '[exec("ls")]\n',
    "a list of calls with names as arguments": "[get_weather(city=place)]\n",
    "a list of nested calls": '[exec(cmd=get_weather(city="Paris"))]\n',
    "a list of calls with an f-string": '[exec(cmd=f"ls {x}")]\n',
    "a list comprehension": '[exec(cmd=c) for c in ("ls", "pwd")]\n',
    "a list comprehension with a literal": '[exec(cmd="ls") for _ in range(3)]\n',
    "a subscript": 'tools["exec"](cmd="ls")\n[0]\n',
    "a doctest": '>>> exec(cmd="ls")\n{"status": 0}\n>>> get_weather\n<function get_weather>\n',
    "a doctest prompt with a name": ">>>exec\n<built-in function exec>\n",
    "a conflict marker": "<<<<<<< HEAD\na = 1\n=======\na = 2\n>>>>>>> exec\n",
    "a quotation in mail": "> Action: exec\n> Action Input: {}\n>>> get_weather\nI agree.\n",
    "an import": "functools is a module.\nfrom functools import partial\nfunctools.partial(exec, cmd='ls')\n",
    "a generic of functools": "functools[int] is no type.\n",
    "a decorator": "@functools.cache\ndef get_weather(city): ...\n",
    "C++": "std::vector<function> f;\n<tool_call> is no header.\n#include <functional>\n",
    "a shell": "$ exec <file [-f] {a,b}\n$ exec <<EOF\n<tool_call>\nEOF\n",
    "TypeScript": 'const f: Function<[string]> = () => exec({ cmd: "ls" });\n',
    # ---- XML
    "XML in a fence": '```xml\n<!-- a call -->\n<invoke name="exec">\n<parameter name="cmd">ls</parameter>\n</invoke>\n```\n',
    "XML of another kind": '<function name="exec">\n  <returns type="int"/>\n</function>\n',
    "XML of an interface": '<method name="exec"><arg name="cmd" type="s" direction="in"/></method>',
    "an invoke element of another kind": '<invoke name="exec" target="x"/>\n<invoke name="other">x</invoke>\n',
    "a function tag in prose": "Llama 3.1 writes <function=NAME>{…}</function>; Qwen3-Coder puts <parameter=KEY> inside.",
    "HTML": '<div class="tools"><code>exec</code></div>\n<parameter name="cmd">ls</parameter>\n',
    "a parameter without a call": "<parameter=cmd>\nls\n</parameter>\n</function>\n</tool_call>",
    "closing tags alone": "</tool_call></function></invoke></function_calls>\nThese tags were left over.",
    "DSML in prose": "DeepSeek V3.2 opens a block with <｜DSML｜function_calls> and closes it with </｜DSML｜function_calls>.",
    # ---- ReAct
    "ReAct explained": (
        "A ReAct agent answers in this format:\n\nThought: what to do\nAction: the tool to use\nAction Input: its input\n"
        "Observation: the result\n"
    ),
    "a ReAct trace": (
        'Thought: I need the weather.\nAction: get_weather\nAction Input: {"city": "Paris"}\nObservation: 12 degrees\n'
        "Thought: I know the answer.\nFinal Answer: It is 12 degrees in Paris."
    ),
    "a ReAct action and prose": 'Action: exec\nAction Input: {"cmd": "ls"}\n\nThe agent then waits for the observation.',
    "an action in prose": "Action: exec was chosen.\nAction Input: none.\n",
    "an action of a plan": "Action: buy milk\nOwner: Ann\nAction items:\n- exec\n",
    "actions as a heading": "Action:\n- exec the plan\n- get_weather\n",
    "a ReAct action with a string": "Action: exec\nAction Input: ls -l\n",
    # ---- diffs, logs and other texts
    "a diff": (
        '--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-[exec(cmd="ls")]\n+[exec(cmd="pwd")]\n'
        '+{"name": "exec", "arguments": {"cmd": "ls"}}\n'
    ),
    "a diff in a fence": '```diff\n-<tool_call>\n-{"name": "exec", "arguments": {}}\n-</tool_call>\n+pass\n```\n',
    "a log of markers": "12:00 [TOOL_CALLS] none\n12:01 [TOOL_CALLS] 2 calls were made\n[ARGS] empty\n",
    "Mistral's marker with another word": "[TOOL_CALLS] is followed by the calls, [ARGS] by the arguments.",
    "a template": "{%- if tools %}<tools>{{ tools | tojson }}</tools>{%- endif %}\n{{ '<tool_call>' + call.name }}\n",
    "a name in a line of its own": "exec\nis a builtin of the shell.\n",
    "a name and something like JSON": "exec\n{cmd}\n",
    "a name, JSON and prose": 'exec\n{"cmd": "ls"}\nruns ls.\n',
    "names as an answer": "get_weather",
    "the beginning of a name": "get_we",
    "Markdown links": "[exec](https://example.com) and [get_weather][1]\n\n[1]: https://example.com\n",
    "a checklist": "- [ ] exec\n- [x] get_weather(city)\n[exec]: done\n",
    "Gemma's words": "Gemma writes call:exec{cmd:ls} after <start_function_call>, but only there.",
    "a footnote": "[exec (1)] runs a command; [get_weather (2)] needs a city.\n",
    "brackets without end": "[" * 50 + "<" * 50 + "{" * 50,
    "markers without end": "<tool_call><tools><function=<|python_tag|>[TOOL_CALLS]<invoke name=",
}
