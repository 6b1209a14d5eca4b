// Numbers and times as people read them. Nothing but Intl knows a locale, and words are in strings/units.
import { many, units } from '../strings/units'

const counts = new Intl.NumberFormat('en-US')
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })

/** A count with separators: 48,211. */
export const count = (n: number | string | null | undefined): string =>
  n === null || n === undefined ? units.none : typeof n === 'string' ? n : counts.format(n)

/** A large count in a few characters: 48.2K. */
export const short = (n: number): string => (Math.abs(n) < 10_000 ? counts.format(Math.round(n)) : compact.format(n))

/** A quantity per second: 0, 0.25, 3.4, 1,200. */
export function rate(n: number): string {
  if (!Number.isFinite(n)) return units.none
  if (n === 0) return '0'
  const a = Math.abs(n)
  return a < 1 ? n.toFixed(2) : a < 10 ? n.toFixed(1) : counts.format(Math.round(n))
}

export function bytes(n: number): string {
  let i = 0
  let v = n
  while (Math.abs(v) >= 1024 && i < units.bytes.length - 1) {
    v /= 1024
    i++
  }
  return units.withUnit(i === 0 ? counts.format(v) : v < 10 ? v.toFixed(1) : String(Math.round(v)), units.bytes[i]!)
}

export function percent(part: number, whole: number): string {
  if (whole <= 0) return units.none
  const p = (100 * part) / whole
  return units.percent(p > 0 && p < 10 ? p.toFixed(1) : String(Math.round(p)))
}

/** A duration in at most two units: 850 ms, 4.2 s, 3m 12s, 2h 5m, 4d 3h. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return units.none
  const sign = ms < 0 ? '-' : ''
  return sign + span(Math.abs(ms))
}

function span(ms: number): string {
  if (ms < 1) return units.millis(ms === 0 ? '0' : ms.toFixed(2))
  if (ms < 1000) return units.millis(String(ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)))
  if (ms < 60_000) return units.seconds((ms / 1000).toFixed(ms < 10_000 ? 1 : 0))
  const s = Math.floor(ms / 1000)
  const [d, h, m] = [Math.floor(s / 86_400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60]
  if (d > 0) return units.daysHours(d, h)
  if (h > 0) return m > 0 ? units.hoursMinutes(h, m) : units.hours(h)
  return s % 60 > 0 ? units.minutesSeconds(m, s % 60) : units.minutes(m)
}

/** How long ago a time is, never in the future: now, 12 s ago, 3m ago. */
export function ago(then: number, now: number): string {
  const ms = Math.max(0, now - then)
  if (ms < 1500) return units.now
  const s = Math.floor(ms / 1000)
  if (s < 60) return units.ago.s(s)
  if (s < 3600) return units.ago.m(Math.floor(s / 60))
  if (s < 86_400) return units.ago.h(Math.floor(s / 3600))
  return units.ago.d(Math.floor(s / 86_400))
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
export const kept = (retention: string): string => (retention === '∞' ? units.everything : retention.replace(/\d{5,}/g, d => counts.format(Number(d))))

/** one thing, two things */
export const plural = (n: number, one: string, others?: string): string => many(n, count(n), one, others)
