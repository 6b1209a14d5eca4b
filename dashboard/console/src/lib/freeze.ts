import { serverNow } from '../api/client'
import { formatRoute, parseRoute } from './router'
import { rangeMillis } from './range'

/** The address of this view with a relative range as absolute times: a colleague sees the same hour tomorrow. */
export function frozenLink(): string {
  const r = parseRoute(location.hash)
  const range = r.query['range'] ?? (r.screen === 'ts' && r.id.length > 0 ? '1h' : '')
  const ms = rangeMillis(range)
  if (ms !== null) {
    const to = Math.round(serverNow())
    r.query['range'] = `${to - ms}..${to}`
  }
  const url = new URL(location.href)
  url.hash = formatRoute(r)
  return url.toString()
}
