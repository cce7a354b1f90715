// Anthropic's own package for Node.
import Anthropic, { toFile } from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { ToolError } from '@anthropic-ai/sdk/lib/tools/ToolError';
import { z } from 'zod';
import { collect, play } from './scenarios.mjs';

const settings = { model: 'mock', max_tokens: 1024 };
const thinks = { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } };
const hides = { ...thinks, thinking: { type: 'adaptive', display: 'omitted' } };

// The package adds /v1 itself.
const client = (url, more = {}) =>
  new Anthropic({ baseURL: url.replace(/\/v1$/, ''), apiKey: 'any', maxRetries: 0, ...more });

const user = (content) => ({ role: 'user', content });
const request = (content, more) => ({ ...settings, messages: [user(content)], ...more });
const ask = async (url, content = 'Hi', more = {}) => await client(url).messages.create(request(content, more));
// The message that the package puts together from the events of a stream.
const askStreaming = async (url, content = 'Hi', more = {}) =>
  await client(url).messages.stream(request(content, more)).finalMessage();
const textOf = ({ content }) => content.flatMap(({ type, text }) => (type === 'text' ? [text] : [])).join('');
const blocksOf = ({ content }) => content.map((block) => [block.type, block[block.type]]);

const tool = {
  name: 'weather',
  description: 'The weather of a city',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const weather = betaZodTool({
  name: 'weather',
  description: 'The weather of a city',
  inputSchema: z.object({ city: z.string() }),
  run: async ({ city }) => `sunny in ${city}`,
});
const person = zodOutputFormat(z.object({ name: z.string(), age: z.number() }));

async function text(url) {
  const message = await ask(url, 'Hi', { system: 'Be brief.' });
  return { text: textOf(message), input: message.usage.input_tokens };
}

async function stream(url) {
  const pieces = [];
  await client(url)
    .messages.stream(request('Hi'))
    .on('text', (delta) => pieces.push(delta))
    .done();
  return pieces;
}

const whole = async (url) => [await ask(url), await askStreaming(url)];
const events = async (url) => await collect(await ask(url, 'Hi', { stream: true }));

async function helpers(url) {
  const seen = [];
  await client(url)
    .messages.stream(request('Weather?', { ...thinks, tools: [tool] }))
    .on('text', (_, snapshot) => seen.push(['text', snapshot]))
    .on('thinking', (_, snapshot) => seen.push(['thinking', snapshot]))
    .on('inputJson', (_, snapshot) => seen.push(['input_json', snapshot]))
    .done();
  return seen;
}

async function cut(url, ask) {
  const message = await ask(url, 'Hi', { max_tokens: 16 });
  return [textOf(message), message.stop_reason];
}

async function broken(url) {
  const pieces = [];
  const stream = client(url).messages.stream(request('Hi'));
  stream.on('text', (delta) => pieces.push(delta));
  return await stream.done().catch(({ type, apiMessage }) => [...pieces, type, apiMessage]);
}

// The stream is aborted after its first piece.
async function left(url) {
  const stream = client(url).messages.stream(request('Hi'));
  for await (const { delta } of stream) {
    if (delta?.type === 'text_delta') {
      stream.abort();
      return delta.text;
    }
  }
}

async function options(url) {
  const more = {
    stop_sequences: ['END'],
    metadata: { user_id: 'ada' },
    service_tier: 'auto',
    tools: [tool],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    temperature: 0.5,
    top_p: 0.9,
    top_k: 5,
  };
  return textOf(await ask(url, 'Hi', more));
}

async function named(url, { model }) {
  const message = await ask(url, 'Hi', { model });
  return [textOf(message), message.model];
}

async function cached(url) {
  const messages = [await ask(url), await askStreaming(url)];
  return messages.map(({ usage }) => [usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens]);
}

async function budget(url) {
  return blocksOf(await ask(url, 'Think.', { max_tokens: 2048, thinking: { type: 'enabled', budget_tokens: 1024 } }));
}

const hidden = async (url) => [await ask(url, 'Think.', hides), await askStreaming(url, 'Think.', hides)].map(blocksOf);
const unasked = async (url) => [await ask(url, 'Think.'), await askStreaming(url, 'Think.')].map(blocksOf);

// Each answer is sent back as it came, with the results of its calls.
async function calls(url, ask) {
  const messages = [user('Weather?')];
  for (;;) {
    const message = await ask(url, '', { ...thinks, tools: [tool], messages });
    if (message.stop_reason !== 'tool_use') return textOf(message);
    const uses = message.content.filter(({ type }) => type === 'tool_use');
    const results = uses.map(({ id, input }) => ({
      type: 'tool_result',
      tool_use_id: id,
      content: `sunny in ${input.city}`,
    }));
    messages.push({ role: 'assistant', content: message.content }, user(results));
  }
}

async function runner(url) {
  const run = client(url).beta.messages.toolRunner(request('Weather?', { ...thinks, tools: [weather] }));
  return textOf(await run.runUntilDone());
}

async function runnerStreamed(url) {
  const run = client(url).beta.messages.toolRunner(request('Weather?', { ...thinks, tools: [weather], stream: true }));
  const messages = [];
  for await (const stream of run) messages.push(await stream.finalMessage());
  return textOf(messages.at(-1));
}

// The runner tells the model about the error of a tool.
async function failing(url) {
  const run = async ({ city }) => {
    throw new ToolError(`${city} is unknown.`);
  };
  const tools = [{ ...weather, run }];
  return textOf(await client(url).beta.messages.toolRunner(request('Weather?', { ...thinks, tools })).runUntilDone());
}

async function chosen(url, { choice }) {
  const { content } = await ask(url, 'Weather?', { tools: [tool], tool_choice: choice });
  return content.map(({ type, name = null, input = null }) => [type, name, input]);
}

async function answered(url, { result }) {
  const use = { type: 'tool_use', id: 'call_1', name: 'weather', input: { city: 'Paris' } };
  const results = [{ type: 'tool_result', tool_use_id: 'call_1', ...result }];
  const messages = [user('Weather?'), { role: 'assistant', content: [use] }, user(results)];
  return textOf(await ask(url, '', { tools: [tool], messages }));
}

// Tools whose schema only Anthropic's models know. The client runs them.
async function builtin(url) {
  const tools = [
    { type: 'bash_20250124', name: 'bash' },
    { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool' },
    { type: 'memory_20250818', name: 'memory' },
  ];
  return (await ask(url, 'List the files.', { tools })).content.map(({ name, input }) => [name, input]);
}

const invent = () => request('Invent a person.', { output_config: { format: person } });
const parsed = async (url) => (await client(url).messages.parse(invent())).parsed_output;
const parsedStream = async (url) => (await client(url).messages.stream(invent()).finalMessage()).parsed_output;

async function twoTurns(url, ask, more) {
  const messages = [user('My name is Ada.')];
  const { role, content } = await ask(url, '', { ...more, messages });
  messages.push({ role, content }, user('What is my name?'));
  return textOf(await ask(url, '', { ...more, messages }));
}

// A system message between others.
async function told(url) {
  const said = { role: 'assistant', content: 'Hello, Ada.' };
  const last = { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] };
  return textOf(await ask(url, '', { messages: [user('My name is Ada.'), said, user('What is my name?'), last] }));
}

// A conversation that the server is asked to keep.
async function thread(url) {
  const kept = client(url).beta.messages.thread(request('My name is Ada.', thinks));
  await kept.send();
  return textOf(await kept.send(user('What is my name?')));
}

async function image(url, { source }) {
  return textOf(await ask(url, [{ type: 'text', text: 'What is it?' }, { type: 'image', source }]));
}

async function document(url, { block }) {
  return textOf(await ask(url, [{ type: 'document', ...block }, { type: 'text', text: 'What does it say?' }]));
}

// What the server found is sent back with the next question.
async function searched(url) {
  const tools = [{ type: 'web_search_20250305', name: 'web_search', max_uses: 2 }];
  const question = user('What is the capital of Italy?');
  const more = { tools, messages: [question] };
  const messages = [await ask(url, '', more), await askStreaming(url, '', more)];
  const said = { role: 'assistant', content: messages[1].content };
  await ask(url, '', { tools, messages: [question, said, user('Since when?')] });
  return messages.map(({ content, usage }) => ({
    types: content.map(({ type }) => type),
    query: content[0].input.query,
    found: content[1].content[0].url,
    cited: content[2].citations.map((cited) => cited.url),
    searches: usage.server_tool_use.web_search_requests,
  }));
}

// Tools of an MCP server that the gateway connects to.
async function connected(url, { server }) {
  const [used, result, said] = (
    await client(url).beta.messages.create(
      request('Echo it', {
        mcp_servers: [{ type: 'url', name: 'bad', url: server }],
        tools: [{ type: 'mcp_toolset', mcp_server_name: 'bad' }],
        betas: ['mcp-client-2025-11-20'],
      }),
    )
  ).content;
  return [used.server_name, used.name, used.input, result.content[0].text, said.text];
}

// The blocks of an answer, whole and streamed, each with what it cites.
async function cited(url, { documents }) {
  const messages = [await ask(url, documents), await askStreaming(url, documents)];
  return messages.map(({ content }) => content.map(({ text, citations }) => [text, citations ?? []]));
}

const code = { tools: [{ type: 'code_execution_20250825', name: 'code_execution' }] };

// What code has written is downloaded, and the next question goes on where it was run.
async function ran(url) {
  const { messages, files } = client(url).beta;
  const message = await messages.create(request('Plot it.', code));
  const result = message.content[1].content;
  const found = [];
  for (const { file_id } of result.content) {
    found.push([(await files.retrieveMetadata(file_id)).filename, await (await files.download(file_id)).text()]);
  }
  const again = await messages.create(request('Again.', { ...code, container: message.container.id }));
  return {
    printed: result.stdout,
    files: found.sort(),
    expires: !Number.isNaN(Date.parse(message.container.expires_at)),
    same: again.container.id === message.container.id,
  };
}

// The summary comes in a stream, and is sent back with the next question.
async function compacted(url, { messages }) {
  const edit = { type: 'compact_20260112', trigger: { type: 'input_tokens', value: 1000 } };
  const managed = { ...settings, betas: ['compact-2026-01-12'], context_management: { edits: [edit] } };
  const { role, content } = await client(url).beta.messages.stream({ ...managed, messages }).finalMessage();
  await client(url).beta.messages.create({ ...managed, messages: [...messages, { role, content }, user('And milk?')] });
  return content.map((block) => [block.type, block.content ?? block.text]);
}

async function models(url) {
  const { models } = client(url);
  return [(await collect(models.list())).map(({ id }) => id), (await models.retrieve('mock')).display_name];
}

// Files are uploaded and listed; one is read by the model and by the client, and deleted.
async function files(url) {
  const { files, messages } = client(url).beta;
  const upload = async (text, name) =>
    await files.upload({ file: await toFile(Buffer.from(text), name, { type: 'text/plain' }) });
  const other = await upload('Twice.', 'other.txt');
  const uploaded = await upload('Once.', 'tale.txt');
  const listed = (await collect(files.list())).map(({ id }) => id);
  const source = { type: 'file', file_id: uploaded.id };
  const message = await messages.create(request([{ type: 'document', source }]));
  const content = await (await files.download(uploaded.id)).text();
  const deleted = await files.delete(uploaded.id);
  return {
    uploaded: [uploaded.filename, uploaded.size_bytes, uploaded.mime_type],
    listed: listed.sort().join() === [uploaded.id, other.id].sort().join(),
    said: textOf(message),
    content,
    deleted: deleted.id === uploaded.id,
    left: (await collect(files.list())).map(({ filename }) => filename),
  };
}

// A batch is made, followed to its end, read, listed and deleted; another one is cancelled.
async function batches(url) {
  const kept = client(url).messages.batches;
  const params = request('Hi');
  const made = await kept.create({ requests: [0, 1, 2].map((at) => ({ custom_id: `r${at}`, params })) });
  let batch = made;
  while (batch.processing_status !== 'ended') {
    await new Promise((resolve) => setTimeout(resolve, 50));
    batch = await kept.retrieve(made.id);
  }
  const results = {};
  for await (const { custom_id, result } of await kept.results(made.id)) results[custom_id] = textOf(result.message);
  const late = await kept.create({ requests: [{ custom_id: 'late', params }] });
  const cancelled = await kept.cancel(late.id);
  const listed = (await collect(kept.list())).map(({ id }) => id);
  return {
    started: [made.processing_status, made.request_counts.processing],
    counts: batch.request_counts,
    results,
    cancelled: ['canceling', 'ended'].includes(cancelled.processing_status),
    listed: listed.sort().join() === [made.id, late.id].sort().join(),
    deleted: (await kept.delete(made.id)).id === made.id,
  };
}

async function count(url) {
  const asked = { model: 'mock', system: 'Be brief.', tools: [tool], messages: [user('Hi')] };
  const { messages, beta } = client(url);
  return [await messages.countTokens(asked), await beta.messages.countTokens(asked)];
}

// Of an answer, a stream, and an error, twice.
async function ids(url) {
  const stream = client(url).messages.stream(request('Hi'));
  await stream.done();
  const error = await ask(url, [{ type: 'picture' }]).catch((error) => error);
  return [(await ask(url))._request_id, stream.request_id, error.requestID, error.error.request_id];
}

const errorSeen = (error) => [error.constructor.name, error.status, error.type, error.apiMessage];
const refused = async (url, { content, ...more }) => await ask(url, content, more).catch(errorSeen);
const misplaced = async (url) => await client(url).post('/v1/message', { body: {} }).catch(errorSeen);

// The package itself asks again.
async function retried(url) {
  return textOf(await client(url, { maxRetries: 2 }).messages.create(request('Hi')));
}

await play({
  text,
  stream,
  whole,
  events,
  helpers,
  cut: (url) => cut(url, ask),
  cutStreamed: (url) => cut(url, askStreaming),
  broken,
  left,
  options,
  named,
  cached,
  thought: async (url) => blocksOf(await ask(url, 'Think.', thinks)),
  thoughtStreamed: async (url) => blocksOf(await askStreaming(url, 'Think.', thinks)),
  budget,
  hidden,
  unasked,
  calls: (url) => calls(url, ask),
  callsStreamed: (url) => calls(url, askStreaming),
  runner,
  runnerStreamed,
  failing,
  chosen,
  answered,
  builtin,
  parsed,
  parsedStream,
  twoTurns: (url) => twoTurns(url, ask, thinks),
  twoTurnsStreamed: (url) => twoTurns(url, askStreaming, thinks),
  twoTurnsHidden: (url) => twoTurns(url, ask, hides),
  twoTurnsHiddenStreamed: (url) => twoTurns(url, askStreaming, hides),
  told,
  thread,
  image,
  document,
  searched,
  connected,
  cited,
  ran,
  compacted,
  models,
  files,
  batches,
  count,
  ids,
  refused,
  misplaced,
  retried,
});
