// Durations and sizes as the command line takes and prints them: "90s", "1h30m", "7d"; "64KiB", "1MiB".

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** The milliseconds of a duration; null if it is none. */
export function parseDuration(text: string): number | null {
  const t = text.trim()
  const m = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d{1,3})?)s)?(?:(\d+)ms)?$/.exec(t)
  if (t === '0') return 0
  if (!m || t === '') return null
  const [d, h, min, s, ms] = m.slice(1).map(x => Number(x ?? 0)) as [number, number, number, number, number]
  return Math.round(d * day + h * hour + min * minute + s * second + ms)
}

/** A duration, in days if it is some whole ones. */
export function durationText(ms: number): string {
  if (ms === 0) return '0s'
  if (ms % day === 0) return `${ms / day}d`
  const parts: [number, string][] = [
    [Math.floor(ms / hour), 'h'],
    [Math.floor((ms % hour) / minute), 'm'],
    [Math.floor((ms % minute) / second), 's'],
    [ms % second, 'ms'],
  ]
  return parts.map(([n, unit]) => (n > 0 ? `${n}${unit}` : '')).join('')
}

const sizes = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** The bytes of a size; null if it is none. */
export function parseSize(text: string): number | null {
  const m = /^(\d+)\s*([KMGT]?i?B)?$/.exec(text.trim())
  const at = m ? sizes.indexOf(m[2] ?? 'B') : -1
  const n = m && at >= 0 ? Number(m[1]) * 1024 ** at : NaN
  return Number.isSafeInteger(n) ? n : null
}

/** A size in the largest unit that divides it evenly. */
export function sizeText(bytes: number): string {
  let at = 0
  while (bytes > 0 && bytes % 1024 === 0 && at < sizes.length - 1) {
    bytes /= 1024
    at++
  }
  return at === 0 ? String(bytes) : `${bytes}${sizes[at]}`
}

/** A whole number that is not negative; null if it is none. */
export const parseCount = (text: string): number | null => (/^\d{1,15}$/.test(text.trim()) ? Number(text) : null)
