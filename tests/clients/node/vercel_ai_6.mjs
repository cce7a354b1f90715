// The AI SDK of Vercel, in its version 6.
import { createOpenAI } from '@ai-sdk/openai-v3';
import { generateObject, generateText, stepCountIs, streamText, tool } from 'ai-v6';
import { z } from 'zod';
import { hostedMcp } from './hosted_mcp.mjs';
import { collect, play } from './scenarios.mjs';

const model = (url) => createOpenAI({ baseURL: url, apiKey: 'any' })('mock');

const weather = tool({
  description: 'The weather of a city',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

const person = z.object({ name: z.string(), age: z.number() });

async function text(url) {
  const { text, usage } = await generateText({ model: model(url), system: 'Be brief.', prompt: 'Hi' });
  return { text, input: usage.inputTokens };
}

async function stream(url) {
  const { textStream } = streamText({ model: model(url), prompt: 'Hi' });
  return await collect(textStream);
}

async function toolLoop(url, store) {
  const providerOptions = { openai: { forceReasoning: true, store } };
  const settings = { model: model(url), tools: { weather }, stopWhen: stepCountIs(5), providerOptions };
  const { text, steps } = await generateText({ ...settings, prompt: 'Weather?' });
  return { text, results: steps[0].toolResults.map(({ output }) => output) };
}

async function object(url) {
  return (await generateObject({ model: model(url), schema: person, prompt: 'Invent a person.' })).object;
}

await play({
  text,
  stream,
  toolLoop: (url) => toolLoop(url, true),
  toolLoopStateless: (url) => toolLoop(url, false),
  object,
  ...hostedMcp({ createOpenAI, generateText, streamText }),
});
