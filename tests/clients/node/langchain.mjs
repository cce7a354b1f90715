// LangChain for Node, with `useResponsesApi`.
import { ChatOpenAI } from '@langchain/openai';
import { createAgent, HumanMessage, SystemMessage, tool } from 'langchain';
import { z } from 'zod';
import { collect, play } from './scenarios.mjs';

const model = (url, more) =>
  new ChatOpenAI({
    model: 'mock',
    apiKey: 'any',
    maxRetries: 0,
    useResponsesApi: true,
    configuration: { baseURL: url },
    ...more,
  });

const weather = tool(async ({ city }) => `sunny in ${city}`, {
  name: 'weather',
  description: 'The weather of a city',
  schema: z.object({ city: z.string() }),
});

const person = z.object({ name: z.string(), age: z.number() });

// `reasoning` is only sent for models with a name like this.
const reasons = { model: 'gpt-5-mock', reasoning: { effort: 'low', summary: 'auto' } };
const stateless = { ...reasons, zdrEnabled: true };

async function text(url) {
  const answer = await model(url).invoke([new SystemMessage('Be brief.'), new HumanMessage('Hi')]);
  return { text: answer.text, input: answer.usage_metadata.input_tokens };
}

async function stream(url) {
  const chunks = await collect(await model(url).stream('Hi'));
  return chunks.map(({ text }) => text).filter((piece) => piece);
}

async function reasoning(url) {
  const answer = await model(url, reasons).invoke('Think.');
  return answer.contentBlocks.map(({ type, reasoning, text }) => ({ type, reasoning, text }));
}

async function agent(url, more) {
  const agent = createAgent({ model: model(url, more), tools: [weather] });
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'Weather?' }] });
  return messages.map((message) => [message.type, message.text]);
}

async function streamedAgent(url) {
  const agent = createAgent({ model: model(url), tools: [weather] });
  const input = { messages: [{ role: 'user', content: 'Weather?' }] };
  const seen = await collect(await agent.stream(input, { streamMode: 'messages' }));
  return seen.map(([message]) => message.text).join('');
}

async function object(url) {
  return await model(url).withStructuredOutput(person).invoke('Invent a person.');
}

async function twoTurns(url, more) {
  const messages = [new HumanMessage('My name is Ada.')];
  messages.push(await model(url, more).invoke(messages), new HumanMessage('What is my name?'));
  return (await model(url, more).invoke(messages)).text;
}

async function previousResponse(url) {
  const first = await model(url).invoke('My name is Ada.');
  const settings = { previous_response_id: first.response_metadata.id };
  return (await model(url).invoke('What is my name?', settings)).text;
}

await play({
  text,
  stream,
  reasoning,
  agent,
  agentStateless: (url) => agent(url, stateless),
  streamedAgent,
  object,
  twoTurns,
  twoTurnsStateless: (url) => twoTurns(url, stateless),
  previousResponse,
});
