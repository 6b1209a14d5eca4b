// Commands to copy. They are for a POSIX shell.
import { authEnabled } from '../api/session'
import { apiURL } from './mount'
import { store } from './store'

/** A word that the shell passes on as it is. */
export function quote(word: string): string {
  return /^[A-Za-z0-9_./:@%+,=-]+$/.test(word) && !word.startsWith('=') ? word : "'" + word.replaceAll("'", `'\\''`) + "'"
}

/** The address that commands need; '' is the default one. */
export const clientAddr = store('')

const defaultAddr = '127.0.0.1:9000'

/** The address of a node that listens at listen, for the machine that has its console open at host. */
export function addrOf(listen: string, host: string): string {
  const at = listen.lastIndexOf(':')
  if (at < 0) return ''
  const ip = listen.slice(0, at)
  const near = ['localhost', '[::1]'].includes(host) ? '127.0.0.1' : host
  const addr = (['', '0.0.0.0', '[::]'].includes(ip) ? near : ip) + listen.slice(at)
  return addr === defaultAddr ? '' : addr
}

/** A command of the floe program: its words, then the flags that are not empty. Words that begin with "-" come behind "--". */
export function floe(words: string[], flags: Record<string, string | true | undefined> = {}, args: string[] = []): string {
  const parts = ['floe', ...words.map(quote)]
  const all: typeof flags = { addr: clientAddr.get(), ...flags }
  for (const [name, value] of Object.entries(all)) {
    if (value === undefined || value === '') continue
    const flag = (name.length === 1 ? '-' : '--') + name
    parts.push(value === true ? flag : value.startsWith('-') && name.length > 1 ? `${flag}=${quote(value)}` : `${flag} ${quote(value)}`)
  }
  if (args.some(a => a.length > 1 && a.startsWith('-'))) parts.push('--')
  return [...parts, ...args.map(quote)].join(' ')
}

/** The flag of a namespace, none for the default one. */
export const inNamespace = (ns: string): Record<string, string | undefined> => ({ n: ns === 'default' ? undefined : ns })

/** A call of the API by curl. Where one has to be signed in, the token is taken from the environment: no secret is part of it. */
export function curl(method: string, path: string, query: Record<string, string> = {}, body?: string): string {
  const url = apiURL(path)
  for (const [name, value] of Object.entries(query)) if (value !== '') url.searchParams.set(name, value)
  const parts = ['curl']
  if (method !== 'GET') parts.push('-X', method)
  if (authEnabled.get()) parts.push('-H "Authorization: Bearer $FLOE_TOKEN"')
  parts.push(quote(url.toString()))
  if (body !== undefined) parts.push('--data-binary', quote(body.startsWith('@') ? '\n' + body : body))
  return parts.join(' ')
}
