// The AI SDK of Vercel.
import { createOpenAI } from '@ai-sdk/openai';
import { generateObject, generateText, isStepCount, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';
import { hostedMcp } from './hosted_mcp.mjs';
import { collect, play } from './scenarios.mjs';

const openai = (url) => createOpenAI({ baseURL: url, apiKey: 'any' });
const model = (url) => openai(url)('mock');

const weather = tool({
  description: 'The weather of a city',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

const person = z.object({ name: z.string(), age: z.number() });

const reasons = { forceReasoning: true, reasoningSummary: 'auto' };
const stored = { openai: reasons };
const stateless = { openai: { ...reasons, store: false } };

async function text(url) {
  const { text, usage } = await generateText({ model: model(url), instructions: 'Be brief.', prompt: 'Hi' });
  return { text, input: usage.inputTokens, output: usage.outputTokens };
}

async function stream(url) {
  const { textStream } = streamText({ model: model(url), prompt: 'Hi' });
  return await collect(textStream);
}

async function twoTurns(url, providerOptions) {
  const messages = [{ role: 'user', content: 'My name is Ada.' }];
  const first = await generateText({ model: model(url), messages, providerOptions });
  messages.push(...first.response.messages, { role: 'user', content: 'What is my name?' });
  const second = await generateText({ model: model(url), messages, providerOptions });
  return [first, second].map(({ text, reasoningText }) => ({ text, reasoning: reasoningText }));
}

async function continued(url) {
  const first = await generateText({ model: model(url), prompt: 'My name is Ada.' });
  const { responseId } = first.providerMetadata.openai;
  const providerOptions = { openai: { previousResponseId: responseId } };
  return (await generateText({ model: model(url), prompt: 'What is my name?', providerOptions })).text;
}

async function toolLoop(url, providerOptions) {
  const settings = { model: model(url), tools: { weather }, stopWhen: isStepCount(5), providerOptions };
  const { text, steps } = await generateText({ ...settings, prompt: 'Weather?' });
  return { text, results: steps[0].toolResults.map(({ output }) => output) };
}

async function streamedToolLoop(url, providerOptions) {
  const settings = { model: model(url), tools: { weather }, stopWhen: isStepCount(5), providerOptions };
  const { fullStream } = streamText({ ...settings, prompt: 'Weather?' });
  const seen = { reasoning: '', results: [], text: '' };
  for await (const part of fullStream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'reasoning-delta') seen.reasoning += part.text;
    if (part.type === 'tool-result') seen.results.push(part.output);
    if (part.type === 'text-delta') seen.text += part.text;
  }
  return seen;
}

async function shell(url) {
  const run = (command) => ({ stdout: `ran ${command}`, stderr: '', outcome: { type: 'exit', exitCode: 0 } });
  const execute = async ({ action }) => ({ output: action.commands.map(run) });
  const tools = { shell: openai(url).tools.shell({ execute }) };
  return (await generateText({ model: model(url), tools, stopWhen: isStepCount(5), prompt: 'Look.' })).text;
}

async function patch(url) {
  const execute = async ({ operation }) => ({ status: 'completed', output: `${operation.type} ${operation.path}` });
  const tools = { apply_patch: openai(url).tools.applyPatch({ execute }) };
  return (await generateText({ model: model(url), tools, stopWhen: isStepCount(5), prompt: 'Patch it.' })).text;
}

async function custom(url) {
  const sql = openai(url).tools.customTool({ description: 'Runs SQL', execute: async (input) => `rows of ${input}` });
  return (await generateText({ model: model(url), tools: { sql }, stopWhen: isStepCount(5), prompt: 'Count.' })).text;
}

async function image(url) {
  const content = [
    { type: 'text', text: 'What is it?' },
    { type: 'file', mediaType: 'image/png', data: Uint8Array.from([137, 80, 78, 71]) },
  ];
  return (await generateText({ model: model(url), messages: [{ role: 'user', content }] })).text;
}

async function recorded(url) {
  const tools = {
    get_weather: tool({
      inputSchema: z.object({ city: z.string(), unit: z.string() }),
      execute: async ({ city, unit }) => `20 ${unit} in ${city}`,
    }),
    get_time: tool({ inputSchema: z.object({ tz: z.string() }), execute: async ({ tz }) => `noon ${tz}` }),
  };
  const { text } = streamText({ model: model(url), tools, stopWhen: isStepCount(5), prompt: 'Weather and time?' });
  return await text;
}

async function cut(url) {
  const { text, finishReason } = await generateText({ model: model(url), prompt: 'Hi', maxOutputTokens: 16 });
  return { text, finishReason };
}

async function broken(url) {
  const errors = [];
  const { text, finishReason } = streamText({
    model: model(url),
    prompt: 'Hi',
    onError: ({ error }) => errors.push(error.message),
  });
  return { text: await text, finishReason: await finishReason, errors };
}

async function object(url) {
  return (await generateObject({ model: model(url), schema: person, prompt: 'Invent a person.' })).object;
}

async function objectStream(url) {
  const { partialObjectStream, object } = streamObject({ model: model(url), schema: person, prompt: 'Invent a person.' });
  return { partial: await collect(partialObjectStream), object: await object };
}

await play({
  text,
  stream,
  twoTurns: (url) => twoTurns(url, stored),
  twoTurnsStateless: (url) => twoTurns(url, stateless),
  continued,
  toolLoop: (url) => toolLoop(url, stored),
  toolLoopStateless: (url) => toolLoop(url, stateless),
  streamedToolLoop: (url) => streamedToolLoop(url, stored),
  streamedToolLoopStateless: (url) => streamedToolLoop(url, stateless),
  shell,
  patch,
  custom,
  image,
  recorded,
  cut,
  broken,
  object,
  objectStream,
  ...hostedMcp({ createOpenAI, generateText, streamText }),
});
