// MCP servers that the gateway connects to, for the AI SDK: the code is the same for its versions 6 and 7.
import { collect } from './scenarios.mjs';

const question = { role: 'user', content: 'Echo it' };

export function hostedMcp({ createOpenAI, generateText, streamText }) {
  const settings = (url, server, requireApproval) => {
    const openai = createOpenAI({ baseURL: url, apiKey: 'any' });
    const mcp = openai.tools.mcp({ serverLabel: 'bad', serverUrl: server, requireApproval });
    return { model: openai('mock'), tools: { mcp }, maxRetries: 0 };
  };

  async function generated(settings, messages) {
    const { text, content, response } = await generateText({ ...settings, messages });
    return { text, parts: content, messages: response.messages };
  }

  async function streamed(settings, messages) {
    const errors = [];
    const result = streamText({ ...settings, messages, onError: ({ error }) => errors.push(error) });
    const parts = await collect(result.fullStream);
    if (errors.length) throw errors[0];
    return { text: await result.text, parts, messages: (await result.response).messages };
  }

  const of = (parts, type) => parts.filter((part) => part.type === type);

  async function called(url, server, answer) {
    const { text, parts } = await answer(settings(url, server, 'never'), [question]);
    return {
      text,
      calls: of(parts, 'tool-call').map(({ toolName }) => toolName),
      results: of(parts, 'tool-result').map(({ output }) => output),
    };
  }

  // The model's call waits for an approval, which goes to the gateway with the next request.
  async function asked(url, server, answer, approved) {
    const given = settings(url, server, 'always');
    const first = await answer(given, [question]);
    const requests = of(first.parts, 'tool-approval-request');
    const responses = requests.map(({ approvalId }) => {
      return { type: 'tool-approval-response', approvalId, approved, providerExecuted: true };
    });
    const second = await answer(given, [question, ...first.messages, { role: 'tool', content: responses }]);
    return {
      text: second.text,
      requests: requests.map(({ toolCall }) => [toolCall.toolName, toolCall.input]),
      results: of(second.parts, 'tool-result').map(({ output }) => output),
    };
  }

  // A server that fails.
  const failed = (url, server, answer) => called(url, server, answer).then(() => 'no error', ({ message }) => message);

  // The second request has the call of the first, and its result.
  async function twoTurns(url, server, answer) {
    const given = settings(url, server, 'never');
    const first = await answer(given, [question]);
    return (await answer(given, [question, ...first.messages, { role: 'user', content: 'Thanks' }])).text;
  }

  const both = (name, scenario) => ({
    [name]: (url, { server }) => scenario(url, server, generated),
    [`${name}Streamed`]: (url, { server }) => scenario(url, server, streamed),
  });

  return {
    ...both('mcp', called),
    ...both('mcpApproved', (url, server, answer) => asked(url, server, answer, true)),
    ...both('mcpDenied', (url, server, answer) => asked(url, server, answer, false)),
    ...both('mcpFailed', failed),
    ...both('mcpTwoTurns', twoTurns),
  };
}
