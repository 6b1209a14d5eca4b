// Calls of the API: one function, one error, one clock.
import { parseRaw } from '../lib/json'
import { strings } from '../strings'
import { apiURL } from '../lib/mount'
import { forget, token } from './session'
import type { Routes } from './routes'

/** An answer that is no success, or none at all (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfterMillis = 0,
    readonly body: unknown = null,
  ) {
    super(message)
  }
}

let skew = 0
/** The time by the node's clock. */
export const serverNow = () => Date.now() + skew

function learnTime(date: string | null, started: number) {
  if (!date) return
  const at = Date.parse(date)
  // The header has seconds: half of one is the best guess. Small differences are noise.
  const now = at + 500 - (started + Date.now()) / 2
  if (Math.abs(now - skew) > 1500) skew = Math.abs(now) > 1500 ? now : 0
}

export interface Call {
  query?: Record<string, string | number | boolean | undefined>
  body?: string
  signal?: AbortSignal
  raw?: readonly string[] // what is kept as source text, see parseRaw
}

export interface Answer<T> {
  data: T
  lossy: boolean // bytes that are no UTF-8 were replaced
  next: string // the parameter and value of the next page, "after=..."; '': that is all
  at: number // when it was read, by this clock
}

/** Puts the members of path into a route's ":name" segments; the rest of them is the query. */
export function fill(pattern: string, args: Record<string, string | number | boolean | undefined> = {}): { path: string; query: Record<string, string> } {
  const query: Record<string, string> = {}
  const used = new Set<string>()
  const path = pattern.replace(/:(\w+)/g, (_, name: string) => {
    used.add(name)
    return encodeURIComponent(String(args[name] ?? ''))
  })
  for (const [name, value] of Object.entries(args)) {
    if (!used.has(name) && value !== undefined && value !== '') query[name] = String(value)
  }
  return { path: path.replace(/^\/api\/v1/, ''), query }
}

/** Called when the node has refused the token. */
export const refused = { handler: () => {} }

/** The token is good no more: it goes, and a key is asked for. */
export function sessionOver() {
  forget()
  refused.handler()
}

export async function call<K extends keyof Routes & string>(
  route: K,
  args: Record<string, string | number | boolean | undefined> = {},
  opts: Call = {},
): Promise<Answer<Routes[K]>> {
  const [method = 'GET', pattern = ''] = route.split(' ')
  const { path, query } = fill(pattern, args)
  const url = apiURL(path)
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
  const started = Date.now()
  const headers: Record<string, string> = {}
  const used = token.get()
  if (used) headers['Authorization'] = 'Bearer ' + used
  let response: Response
  let text: string
  try {
    const init: RequestInit = { method, headers, cache: 'no-store', redirect: 'error' }
    if (opts.body !== undefined) init.body = opts.body
    if (opts.signal) init.signal = opts.signal
    response = await fetch(url, init)
    text = await response.text()
  } catch (e) {
    if ((e as Error).name === 'AbortError') throw e
    throw new ApiError(0, strings.unreachable)
  }
  learnTime(response.headers.get('Date'), started)
  if (response.status === 401 && !pattern.includes('/auth/')) {
    // What is refused late, of a session that has ended since, says nothing about the present one.
    if (token.get() === used) sessionOver()
    if (method !== 'GET') throw new ApiError(401, strings.sessionEnded)
  }
  if (!response.ok) throw failure(response, text)
  let data: Routes[K]
  try {
    data = (opts.raw || /\d{16}/.test(text) ? parseRaw(text, opts.raw) : JSON.parse(text)) as Routes[K]
  } catch {
    throw new ApiError(response.status, strings.noJSONAnswer)
  }
  const next = /<\?([^>]*)>; rel="next"/.exec(response.headers.get('Link') ?? '')?.[1] ?? ''
  return { data, lossy: response.headers.get('X-Floe-Lossy') === 'true', next, at: Date.now() }
}

function failure(response: Response, text: string): ApiError {
  let body: unknown = null
  try {
    body = JSON.parse(text)
  } catch {
    // Something in between has answered.
  }
  const message = (body as { error?: string } | null)?.error ?? `${response.status} ${response.statusText}`
  const after = Number(response.headers.get('Retry-After') ?? 0)
  return new ApiError(response.status, message, Number.isFinite(after) ? after * 1000 : 0, body)
}

/** A parameter of Answer.next. */
export function nextParam(next: string, name: string): string {
  return new URLSearchParams(next).get(name) ?? ''
}
