// Requests to the gateway that served this page, with the key that was signed in with.

import * as session from "./session.js";

/** An answer that is not a success, in the words of the server. */
export class ServerError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code ?? null;
    this.param = error.param ?? null;
  }
}

/** The page may be served below a path of a proxy. */
export const address = (path) => new URL(path.replace(/^\//, ""), document.baseURI).href;

/**
 * @param {string} path
 * @param {{method?: string, body?: any, signal?: AbortSignal}} [options]
 * @returns {Promise<Response>} a success; everything else is a ServerError
 */
export async function request(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (session.key()) headers.Authorization = `Bearer ${session.key()}`;
  // A form names its own type.
  const isJson = body !== undefined && !(body instanceof FormData);
  if (isJson) headers["Content-Type"] = "application/json";
  const sent = isJson ? JSON.stringify(body) : body;
  const answer = await fetch(address(path), { method, headers, body: sent, signal, cache: "no-store" });
  if (answer.ok) return answer;
  const error = new ServerError(answer.status, await errorOf(answer));
  if (error.status === 401) dispatchEvent(new Event("signedout"));
  throw error;
}

async function errorOf(answer) {
  try {
    return (await answer.json()).error ?? { message: `The server answered ${answer.status}.` };
  } catch {
    return { message: `The server answered ${answer.status} ${answer.statusText}.` };
  }
}

export async function getJson(path, options) {
  return (await request(path, options)).json();
}

/** @param {Object<string, any>} parameters those that are null, undefined or empty are left out */
export function query(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** In words, for the reader of the page. */
export function explain(error) {
  if (error instanceof ServerError) return error.message;
  if (error instanceof TypeError) return "The gateway does not answer. Is it still running?";
  return String(error.message ?? error);
}
