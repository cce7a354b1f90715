// OpenAI's own package for Node.
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { z } from 'zod';
import { collect, play } from './scenarios.mjs';

const client = (url) => new OpenAI({ baseURL: url, apiKey: 'any', maxRetries: 0 });

const weather = {
  type: 'function',
  name: 'weather',
  description: 'The weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false },
  strict: true,
};

const person = zodTextFormat(z.object({ name: z.string(), age: z.number() }), 'person');

const results = (output) =>
  output
    .filter((item) => item.type === 'function_call')
    .map(({ call_id, arguments: given }) => {
      return { type: 'function_call_output', call_id, output: `sunny in ${JSON.parse(given).city}` };
    });

async function text(url) {
  const request = { model: 'mock', instructions: 'Be brief.', input: 'Hi' };
  const { output_text, usage } = await client(url).responses.create(request);
  return { text: output_text, input: usage.input_tokens, output: usage.output_tokens };
}

async function stream(url) {
  const events = await client(url).responses.create({ model: 'mock', input: 'Hi', stream: true });
  const all = await collect(events);
  return {
    types: all.map(({ type }) => type),
    numbers: all.map(({ sequence_number }) => sequence_number),
    text: all.at(-1).response.output[0].content[0].text,
  };
}

async function accumulated(url) {
  const pieces = [];
  const stream = client(url).responses.stream({ model: 'mock', input: 'Hi' });
  stream.on('response.output_text.delta', ({ delta, snapshot }) => pieces.push([delta, snapshot]));
  return { pieces, text: (await stream.finalResponse()).output_text };
}

async function broken(url) {
  const all = await collect(await client(url).responses.create({ model: 'mock', input: 'Hi', stream: true }));
  const { type, response } = all.at(-1);
  return { type, status: response.status, code: response.error.code, text: response.output[0].content[0].text };
}

async function reasoning(url) {
  const request = { model: 'mock', input: 'Think.', reasoning: { effort: 'low', summary: 'auto' } };
  const { output } = await client(url).responses.create(request);
  return output.map(({ type, summary }) => ({ type, summary }));
}

// Function calls whose results continue the response by its id.
async function continuedCalls(url) {
  const openai = client(url);
  const settings = { model: 'mock', tools: [weather] };
  const first = await openai.responses.create({ ...settings, input: 'Weather?' });
  const second = await openai.responses.create({
    ...settings,
    previous_response_id: first.id,
    input: results(first.output),
  });
  return second.output_text;
}

// The same without state: every item is sent back as it came, thoughts as encrypted content.
async function statelessCalls(url) {
  const openai = client(url);
  const settings = { model: 'mock', tools: [weather], store: false, include: ['reasoning.encrypted_content'] };
  const input = [{ role: 'user', content: 'Weather?' }];
  const first = await openai.responses.create({ ...settings, input });
  input.push(...first.output, ...results(first.output));
  return (await openai.responses.create({ ...settings, input })).output_text;
}

async function conversation(url) {
  const openai = client(url);
  const { id } = await openai.conversations.create();
  await openai.responses.create({ model: 'mock', conversation: id, input: 'My name is Ada.' });
  const { output_text } = await openai.responses.create({ model: 'mock', conversation: id, input: 'What is my name?' });
  const items = await collect(openai.conversations.items.list(id, { order: 'asc' }));
  return { text: output_text, items: items.map(({ type }) => type) };
}

async function compacted(url) {
  const openai = client(url);
  const first = await openai.responses.create({ model: 'mock', input: 'My name is Ada.' });
  const { output } = await openai.responses.compact({ model: 'mock', previous_response_id: first.id });
  const input = [...output, { role: 'user', content: 'What is my name?' }];
  return (await openai.responses.create({ model: 'mock', input })).output_text;
}

async function parsed(url) {
  const request = { model: 'mock', input: 'Invent a person.', text: { format: person } };
  return (await client(url).responses.parse(request)).output_parsed;
}

async function stored(url) {
  const openai = client(url);
  const { id } = await openai.responses.create({ model: 'mock', input: 'Hi' });
  const { output_text } = await openai.responses.retrieve(id);
  const items = await collect(openai.responses.inputItems.list(id));
  await openai.responses.delete(id);
  const gone = await openai.responses.retrieve(id).catch(({ status }) => status);
  return { text: output_text, input: items[0].content[0].text, gone };
}

async function webSocket(url) {
  const socket = new ResponsesWS(client(url));
  const turn = async (request) => {
    socket.send({ type: 'response.create', model: 'mock', store: false, ...request });
    for await (const { type, message, error } of socket.stream()) {
      if (type === 'error') throw error;
      if (type === 'message' && message.type === 'response.completed') return message.response;
    }
  };
  const first = await turn({ input: 'My name is Ada.' });
  const second = await turn({ input: 'What is my name?', previous_response_id: first.id });
  socket.close();
  return second.output.map(({ content }) => content[0].text);
}

async function refused(url) {
  const { status, code, param, type } = await client(url)
    .responses.create({ model: 'mock', input: 'Hi', previous_response_id: 'resp_unknown' })
    .catch((error) => error);
  return { status, code, param, type };
}

await play({
  text,
  stream,
  accumulated,
  broken,
  reasoning,
  continuedCalls,
  statelessCalls,
  conversation,
  compacted,
  parsed,
  stored,
  webSocket,
  refused,
});
