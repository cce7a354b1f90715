// OpenAI's own package for Node, over Chat Completions.
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { collect, play } from './scenarios.mjs';

const chat = (url) => new OpenAI({ baseURL: url, apiKey: 'any', maxRetries: 0 }).chat.completions;
const ask = (url, request) => chat(url).create({ model: 'mock', ...request });
// The completion that the package puts together from a stream.
const askStreaming = (url, request) => chat(url).stream({ model: 'mock', ...request }).finalChatCompletion();
const user = (content) => ({ role: 'user', content });
const messageOf = ({ choices }) => choices[0].message;

const city = z.object({ city: z.string() });
const weather = { name: 'weather', description: 'The weather of a city', parameters: city };
const tools = [zodFunction(weather)];
const person = zodResponseFormat(z.object({ name: z.string(), age: z.number() }), 'person');
const brief = { messages: [{ role: 'system', content: 'Be brief.' }, user('Hi')] };

const seen = (completion) => {
  const { prompt_tokens, completion_tokens } = completion.usage;
  return { text: messageOf(completion).content, input: prompt_tokens, output: completion_tokens };
};

async function stream(url) {
  const chunks = await collect(await ask(url, { messages: [user('Hi')], stream: true }));
  return chunks.map(({ choices }) => choices[0]?.delta.content).filter(Boolean);
}

async function streamHelper(url) {
  const pieces = [];
  const stream = chat(url).stream({ model: 'mock', messages: [user('Hi')] });
  stream.on('content', (delta, snapshot) => pieces.push([delta, snapshot]));
  await stream.finalContent();
  return pieces;
}

async function cut(url, ask) {
  const completion = await ask(url, { messages: [user('Hi')], max_completion_tokens: 16 });
  return [messageOf(completion).content, completion.choices[0].finish_reason];
}

async function broken(url, more) {
  const pieces = [];
  try {
    const chunks = await ask(url, { messages: [user('Hi')], stream: true, ...more });
    for await (const { choices } of chunks) if (choices[0]?.delta.content) pieces.push(choices[0].delta.content);
  } catch (error) {
    return [...pieces, error.message];
  }
}

// With a tool, so that its thought has the name that all engines share here.
async function thought(url, ask) {
  const { reasoning_content, content } = messageOf(await ask(url, { messages: [user('Think.')], reasoning_effort: 'low', tools }));
  return [reasoning_content, content];
}

// Each answer is sent back with the results of its calls.
async function calls(url, ask, sentBack = (message) => message) {
  const messages = [user('Weather?')];
  for (;;) {
    const message = messageOf(await ask(url, { messages, tools }));
    if (!message.tool_calls?.length) return message.content;
    messages.push(sentBack(message));
    for (const { id, function: called } of message.tool_calls) {
      messages.push({ role: 'tool', tool_call_id: id, content: `sunny in ${JSON.parse(called.arguments).city}` });
    }
  }
}

// The package itself runs the function, and asks again.
async function runTools(url, more) {
  const run = zodFunction({ ...weather, function: ({ city }) => `sunny in ${city}` });
  return await chat(url).runTools({ model: 'mock', messages: [user('Weather?')], tools: [run], ...more }).finalContent();
}

async function callEvents(url) {
  const done = [];
  const stream = chat(url).stream({ model: 'mock', messages: [user('Weather?')], tools });
  stream.on('tool_calls.function.arguments.done', ({ index, name, parsed_arguments }) => done.push([index, name, parsed_arguments]));
  await stream.done();
  return done;
}

async function forced(url, ask, choice) {
  const { tool_calls } = messageOf(await ask(url, { messages: [user('Weather?')], tools, tool_choice: choice }));
  return JSON.parse(tool_calls[0].function.arguments);
}

const invent = { model: 'mock', messages: [user('Invent a person.')], response_format: person };
const parsed = async (url) => messageOf(await chat(url).parse(invent)).parsed;
const parsedStream = async (url) => messageOf(await chat(url).stream(invent).finalChatCompletion()).parsed;

async function twoTurns(url, ask) {
  const messages = [user('My name is Ada.')];
  messages.push(messageOf(await ask(url, { messages, tools })), user('What is my name?'));
  return messageOf(await ask(url, { messages, tools })).content;
}

const named = { type: 'function', function: { name: 'weather' } };

await play({
  text: async (url) => seen(await ask(url, brief)),
  textStreamed: async (url) => seen(await askStreaming(url, { ...brief, stream_options: { include_usage: true } })),
  stream,
  streamHelper,
  cut: (url) => cut(url, ask),
  cutStreamed: (url) => cut(url, askStreaming),
  broken,
  brokenWithTools: (url) => broken(url, { tools }),
  thought: (url) => thought(url, ask),
  thoughtStreamed: (url) => thought(url, askStreaming),
  calls: (url) => calls(url, ask),
  // Of a member that it does not know, `stream()` keeps the last piece only: of a thought, that is of no use.
  callsStreamed: (url) => calls(url, askStreaming, ({ reasoning_content, ...message }) => message),
  runTools,
  runToolsStreamed: (url) => runTools(url, { stream: true }),
  callEvents,
  required: (url) => forced(url, ask, 'required'),
  namedStreamed: (url) => forced(url, askStreaming, named),
  parsed,
  parsedStream,
  twoTurns: (url) => twoTurns(url, ask),
  twoTurnsStreamed: (url) => twoTurns(url, askStreaming),
});
