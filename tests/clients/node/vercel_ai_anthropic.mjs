// The AI SDK of Vercel, with Anthropic's provider.
import { createAnthropic } from '@ai-sdk/anthropic';
import { generateObject, generateText, isStepCount, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';
import { collect, play } from './scenarios.mjs';

const anthropic = (url) => createAnthropic({ baseURL: url, apiKey: 'any' });
const model = (url) => anthropic(url)('mock');

const weather = tool({
  description: 'The weather of a city',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

const person = z.object({ name: z.string(), age: z.number() });

const thinks = { anthropic: { thinking: { type: 'adaptive' }, effort: 'low' } };
// Of models that it does not know, it asks for objects by a tool.
const bySchema = { anthropic: { structuredOutputMode: 'outputFormat' } };

async function text(url) {
  const { text, usage } = await generateText({ model: model(url), instructions: 'Be brief.', prompt: 'Hi' });
  return { text, input: usage.inputTokens, output: usage.outputTokens };
}

async function textStreamed(url) {
  const { text, usage } = streamText({ model: model(url), instructions: 'Be brief.', prompt: 'Hi' });
  return { text: await text, input: (await usage).inputTokens, output: (await usage).outputTokens };
}

async function stream(url) {
  const { textStream } = streamText({ model: model(url), prompt: 'Hi' });
  return await collect(textStream);
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

async function thought(url) {
  const { reasoningText, text } = await generateText({ model: model(url), prompt: 'Think.', providerOptions: thinks });
  return { reasoning: reasoningText, text };
}

async function toolLoop(url) {
  const settings = { model: model(url), tools: { weather }, stopWhen: isStepCount(5), providerOptions: thinks };
  const { text, steps } = await generateText({ ...settings, prompt: 'Weather?' });
  return { text, results: steps[0].toolResults.map(({ output }) => output) };
}

async function streamedToolLoop(url) {
  const settings = { model: model(url), tools: { weather }, stopWhen: isStepCount(5), providerOptions: thinks };
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

// The model is told about the error of a tool.
async function failing(url) {
  const execute = async ({ city }) => {
    throw new Error(`${city} is unknown.`);
  };
  const tools = { weather: { ...weather, execute } };
  return (await generateText({ model: model(url), tools, stopWhen: isStepCount(5), prompt: 'Weather?' })).text;
}

async function builtin(url) {
  const bash = anthropic(url).tools.bash_20250124({ execute: async ({ command }) => `ran ${command}` });
  return (await generateText({ model: model(url), tools: { bash }, stopWhen: isStepCount(5), prompt: 'Look.' })).text;
}

const invent = (url, providerOptions) => ({ model: model(url), schema: person, prompt: 'Invent a person.', providerOptions });
const object = async (url, providerOptions) => (await generateObject(invent(url, providerOptions))).object;

async function objectStream(url) {
  const { partialObjectStream, object } = streamObject(invent(url, bySchema));
  return { partial: await collect(partialObjectStream), object: await object };
}

async function twoTurns(url) {
  const messages = [{ role: 'user', content: 'My name is Ada.' }];
  const first = await generateText({ model: model(url), messages, providerOptions: thinks });
  messages.push(...first.response.messages, { role: 'user', content: 'What is my name?' });
  return (await generateText({ model: model(url), messages, providerOptions: thinks })).text;
}

async function file(url, { data, mediaType }) {
  const content = [
    { type: 'text', text: 'What is it?' },
    { type: 'file', mediaType, data, filename: 'a.pdf' },
  ];
  return (await generateText({ model: model(url), messages: [{ role: 'user', content }] })).text;
}

async function refused(url) {
  const error = await generateText({ model: model(url), prompt: 'Hi', maxRetries: 0 }).catch((error) => error);
  return { status: error.statusCode, message: error.message, isRetryable: error.isRetryable };
}

await play({
  text,
  textStreamed,
  stream,
  cut,
  broken,
  thought,
  toolLoop,
  streamedToolLoop,
  failing,
  builtin,
  object: (url) => object(url, bySchema),
  objectByTool: (url) => object(url, { anthropic: { structuredOutputMode: 'jsonTool' } }),
  objectStream,
  twoTurns,
  file,
  refused,
});
