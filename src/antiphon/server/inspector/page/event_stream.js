// Server-sent events from a fetch, which can send a key where EventSource cannot.

/**
 * @param {Response} answer
 * @returns {AsyncGenerator<{event: string, data: string}>}
 */
export async function* readEvents(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffered = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffered += value.replaceAll("\r", "");
      const frames = buffered.split("\n\n");
      buffered = frames.pop();
      for (const frame of frames) {
        const event = readFrame(frame);
        if (event.data) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function readFrame(frame) {
  const read = { event: "message", data: [] };
  for (const line of frame.split("\n")) {
    const [, name, value] = /^(\w*):? ?(.*)$/.exec(line) ?? [];
    if (name === "event") read.event = value;
    if (name === "data") read.data.push(value);
  }
  return { event: read.event, data: read.data.join("\n") };
}
