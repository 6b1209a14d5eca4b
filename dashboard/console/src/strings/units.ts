// What stands beside numbers, on the same line: units, and words in the place of some. It needs nothing, as the formatters and all other texts need it.

export const units = {
  none: '–',
  millis: (n: string) => `${n}\u00a0ms`,
  seconds: (n: string) => `${n}\u00a0s`,
  daysHours: (d: number, h: number) => `${d}d ${h}h`,
  hours: (h: number) => `${h}h`,
  hoursMinutes: (h: number, m: number) => `${h}h ${m}m`,
  minutes: (m: number) => `${m}m`,
  minutesSeconds: (m: number, s: number) => `${m}m ${s}s`,
  now: 'now',
  ago: { s: (n: number) => `${n}s ago`, m: (n: number) => `${n}m ago`, h: (n: number) => `${n}h ago`, d: (n: number) => `${n}d ago` },
  bytes: ['B', 'KiB', 'MiB', 'GiB', 'TiB'],
  withUnit: (n: string, unit: string) => `${n}\u00a0${unit}`,
  percent: (n: string) => `${n}\u00a0%`,
  everything: 'everything',
}

/** one thing, two things: n is written as it is formatted */
export const many = (n: number, written: string, one: string, others = one + 's'): string => `${written} ${n === 1 ? one : others}`
