import { store, useStore } from './store'

/** Where the console is: `#/<namespace>/<screen>[/<id>...]?<view state>`, or `#/<page>` for what belongs to no namespace. */
export interface Route {
  ns: string
  screen: string
  id: string[]
  query: Record<string, string>
}

const pages = new Set(['login', 'settings', 'about'])

export function parseRoute(hash: string): Route {
  const [path = '', search = ''] = cut(hash.replace(/^#?\/?/, ''), '?')
  const parts = path === '' ? [] : path.split('/').map(decode)
  const query: Record<string, string> = {}
  for (const [name, value] of new URLSearchParams(search)) query[name] = value
  if (parts.length === 1 && pages.has(parts[0]!)) return { ns: '', screen: parts[0]!, id: [], query }
  return { ns: parts[0] || 'default', screen: parts[1] || 'overview', id: parts.slice(2), query }
}

export function formatRoute(r: Partial<Route> & { screen: string }): string {
  const parts = r.ns ? [r.ns, r.screen, ...(r.id ?? [])] : [r.screen]
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(r.query ?? {})) if (value !== '') query.set(name, value)
  const search = query.toString()
  return '#/' + parts.map(encodeURIComponent).join('/') + (search && '?' + search)
}

function cut(s: string, separator: string): [string, string] {
  const at = s.indexOf(separator)
  return at < 0 ? [s, ''] : [s.slice(0, at), s.slice(at + 1)]
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part // a lone % was typed
  }
}

const here = () => (typeof location === 'undefined' ? '' : location.hash)
export const route = store<Route>(parseRoute(here()))

/** The namespace that was looked at last: settings are of none, and the way back leads where one was. */
let lastNamespace = 'default'
export const namespaceOf = (r: Route) => r.ns || lastNamespace

/** Whether the address names no place, so that no namespace was chosen. */
export const unchosen = store(false)
const nameless = (hash: string) => cut(hash.replace(/^#?\/?/, ''), '?')[0] === ''

function moveTo(r: Route) {
  if (r.ns) lastNamespace = r.ns
  route.set(r)
}

/** Follows the address from now on. */
export function startRouter() {
  const moved = () => {
    unchosen.set(nameless(here()))
    moveTo(parseRoute(here()))
  }
  addEventListener('hashchange', moved)
  addEventListener('popstate', moved)
  moved()
}

export const useRoute = () => useStore(route)

/** Goes to another place; the back button leads back. */
export function go(to: string) {
  if (to === here()) return
  location.hash = to
}

/** Changes the view state of this place: no step of the back button. '' removes a member. */
export function view(change: Record<string, string>) {
  const now = parseRoute(here())
  replace(formatRoute({ ...now, query: { ...now.query, ...change } }))
}

export function replace(to: string) {
  if (to === here()) return
  history.replaceState(history.state, '', to)
  if (nameless(to)) unchosen.set(true)
  moveTo(parseRoute(to))
}

/** The address of a screen, or of something on it, in the namespace of this place. */
export function link(screen: string, id: string[] = [], query: Record<string, string> = {}, ns = namespaceOf(route.get())): string {
  return formatRoute({ ns, screen, id, query })
}
