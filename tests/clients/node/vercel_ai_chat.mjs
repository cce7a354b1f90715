// The AI SDK of Vercel over Chat Completions: with `.chat()` of OpenAI's provider, and with the provider of compatible servers.
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateObject, generateText, isStepCount, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';
import { collect, play } from './scenarios.mjs';

const weather = tool({
  description: 'The weather of a city',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});
const tools = { weather };
const person = z.object({ name: z.string(), age: z.number() });

const models = {
  chat: (url) => createOpenAI({ baseURL: url, apiKey: 'any' }).chat('mock'),
  compatible: (url) => {
    const settings = { name: 'antiphon', baseURL: url, apiKey: 'any', includeUsage: true, supportsStructuredOutputs: true };
    return createOpenAICompatible(settings)('mock');
  },
};

async function text(model) {
  const { text, usage } = await generateText({ model, instructions: 'Be brief.', prompt: 'Hi' });
  return { text, input: usage.inputTokens, output: usage.outputTokens };
}

async function stream(model) {
  return await collect(streamText({ model, prompt: 'Hi' }).textStream);
}

async function cut(model, more) {
  const { text, finishReason } = await generateText({ model, prompt: 'Hi', maxOutputTokens: 16, ...more });
  return { text, finishReason };
}

async function broken(model, more) {
  const errors = [];
  const { text, finishReason } = streamText({ model, prompt: 'Hi', onError: ({ error }) => errors.push(error), ...more });
  const seen = { text: await text, finishReason: await finishReason };
  return { ...seen, errors: errors.map((error) => error.message ?? error) };
}

async function thought(model) {
  const providerOptions = { antiphon: { reasoningEffort: 'low' } };
  const { reasoningText, text } = await generateText({ model, prompt: 'Think.', tools, providerOptions });
  return { reasoning: reasoningText, text };
}

async function toolLoop(model) {
  const { text, steps } = await generateText({ model, tools, stopWhen: isStepCount(5), prompt: 'Weather?' });
  return { text, results: steps[0].toolResults.map(({ output }) => output) };
}

async function streamedToolLoop(model) {
  const { fullStream } = streamText({ model, tools, stopWhen: isStepCount(5), prompt: 'Weather?' });
  const seen = { results: [], text: '' };
  for await (const part of fullStream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'tool-result') seen.results.push(part.output);
    if (part.type === 'text-delta') seen.text += part.text;
  }
  return seen;
}

async function forced(model, toolChoice) {
  const { toolCalls } = await generateText({ model, tools: { weather: { ...weather, execute: undefined } }, toolChoice, prompt: 'Weather?' });
  return toolCalls[0].input;
}

async function object(model) {
  return (await generateObject({ model, schema: person, prompt: 'Invent a person.' })).object;
}

async function objectStreamed(model) {
  const { partialObjectStream, object } = streamObject({ model, schema: person, prompt: 'Invent a person.' });
  await collect(partialObjectStream);
  return await object;
}

async function twoTurns(model) {
  const messages = [{ role: 'user', content: 'My name is Ada.' }];
  const first = await generateText({ model, messages, tools });
  messages.push(...first.response.messages, { role: 'user', content: 'What is my name?' });
  return (await generateText({ model, messages, tools })).text;
}

const scenarios = {
  text,
  stream,
  cut,
  cutWithTools: (model) => cut(model, { tools }),
  broken,
  brokenWithTools: (model) => broken(model, { tools }),
  thought,
  toolLoop,
  streamedToolLoop,
  required: (model) => forced(model, 'required'),
  named: (model) => forced(model, { type: 'tool', toolName: 'weather' }),
  object,
  objectStreamed,
  twoTurns,
};
// Each by the name of its provider, such as `chat.text`.
const named = Object.entries(models).flatMap(([kind, model]) =>
  Object.entries(scenarios).map(([name, scenario]) => [`${kind}.${name}`, (url) => scenario(model(url))]),
);
await play(Object.fromEntries(named));
