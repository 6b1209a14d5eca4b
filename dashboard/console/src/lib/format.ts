// Numbers and times as people read them. Nothing but Intl knows a locale.

const counts = new Intl.NumberFormat('en-US')
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })

/** A count with separators: 48,211. */
export const count = (n: number | string | null | undefined): string => (n === null || n === undefined ? '–' : typeof n === 'string' ? n : counts.format(n))

/** A large count in a few characters: 48.2K. */
export const short = (n: number): string => (Math.abs(n) < 10_000 ? counts.format(Math.round(n)) : compact.format(n))

/** A quantity per second: 0, 0.25, 3.4, 1,200. */
export function rate(n: number): string {
  if (!Number.isFinite(n)) return '–'
  if (n === 0) return '0'
  const a = Math.abs(n)
  return a < 1 ? n.toFixed(2) : a < 10 ? n.toFixed(1) : counts.format(Math.round(n))
}

export function bytes(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let i = 0
  let v = n
  while (Math.abs(v) >= 1024 && i < units.length - 1) {
    v /= 1024
    i++
  }
  return i === 0 ? `${counts.format(v)} B` : `${v < 10 ? v.toFixed(1) : Math.round(v)} ${units[i]}`
}

export function percent(part: number, whole: number): string {
  if (whole <= 0) return '–'
  const p = (100 * part) / whole
  return (p > 0 && p < 10 ? p.toFixed(1) : Math.round(p)) + ' %'
}

/** A duration in at most two units: 850 ms, 4.2 s, 3m 12s, 2h 5m, 4d 3h. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '–'
  const sign = ms < 0 ? '-' : ''
  const a = Math.abs(ms)
  if (a < 1) return a === 0 ? '0 ms' : `${sign}${a.toFixed(2)} ms`
  if (a < 1000) return `${sign}${a < 10 ? Number(a.toFixed(1)) : Math.round(a)} ms`
  if (a < 60_000) return `${sign}${(a / 1000).toFixed(a < 10_000 ? 1 : 0)} s`
  const s = Math.floor(a / 1000)
  const [d, h, m] = [Math.floor(s / 86_400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60]
  if (d > 0) return `${sign}${d}d ${h}h`
  if (h > 0) return m > 0 ? `${sign}${h}h ${m}m` : `${sign}${h}h`
  return s % 60 > 0 ? `${sign}${m}m ${s % 60}s` : `${sign}${m}m`
}

/** How long ago a time is, never in the future: now, 12 s ago, 3m ago. */
export function ago(then: number, now: number): string {
  const ms = Math.max(0, now - then)
  if (ms < 1500) return 'now'
  const s = Math.floor(ms / 1000)
  if (s < 60) return `${s}s ago`
  if (s < 3600) return `${Math.floor(s / 60)}m ago`
  if (s < 86_400) return `${Math.floor(s / 3600)}h ago`
  return `${Math.floor(s / 86_400)}d ago`
}

export type Zone = 'local' | 'utc'
const formats = new Map<string, Intl.DateTimeFormat>()

function format(zone: Zone, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options)
  let f = formats.get(key)
  if (!f) formats.set(key, (f = new Intl.DateTimeFormat('sv-SE', zone === 'utc' ? { ...options, timeZone: 'UTC' } : options)))
  return f
}

const day: Intl.DateTimeFormatOptions = { year: 'numeric', month: '2-digit', day: '2-digit' }
const clock: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' }

/** Date and time to the millisecond, as ISO writes it but for the T. */
export function dateTime(ms: number, zone: Zone): string {
  const t = new Date(ms)
  return `${format(zone, { ...day, ...clock }).format(t)}.${String(t.getMilliseconds()).padStart(3, '0')}${zone === 'utc' ? 'Z' : ''}`
}

/** The time of day; to the millisecond if asked for. */
export function timeOfDay(ms: number, zone: Zone, millis = false): string {
  const t = new Date(ms)
  return format(zone, clock).format(t) + (millis ? '.' + String(t.getMilliseconds()).padStart(3, '0') : '')
}

export const iso = (ms: number): string => new Date(ms).toISOString()

/** What is kept, as the node says it: with separators in its counts, and a word for no bound. */
export const kept = (retention: string): string => (retention === '∞' ? 'everything' : retention.replace(/\d{5,}/g, d => counts.format(Number(d))))

/** one thing, two things */
export const plural = (n: number, one: string, many = one + 's'): string => `${count(n)} ${n === 1 ? one : many}`
