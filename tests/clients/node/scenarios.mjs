// Plays a scenario for each line of the input, {"scenario", "url"} and what else it needs, and writes what it returned as a line of JSON.
import { createInterface } from 'node:readline';

export async function play(scenarios) {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr); // for what a client prints
  for await (const line of createInterface({ input: process.stdin })) {
    const { scenario, url, ...more } = JSON.parse(line);
    const outcome = await scenarios[scenario](url, more).then(
      (saw) => ({ saw }),
      (error) => ({ error: `${error.stack}\n${error.responseBody ?? ''}` }),
    );
    write(JSON.stringify(outcome) + '\n');
  }
}

// Array.fromAsync, which Node 20 does not have.
export async function collect(stream) {
  const all = [];
  for await (const each of stream) all.push(each);
  return all;
}
