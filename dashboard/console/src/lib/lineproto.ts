// The line protocol, as far as the ingest helper shows it while it is typed. The node decides; this only points.

export interface Line {
  line: number // from 1
  measurement: string
  tags: [string, string][]
  fields: [string, string][]
  time: number | null // ms
  error: string
}

export type Precision = 'ns' | 'us' | 'ms' | 's'
const perMilli: Record<Precision, number> = { ns: 1e-6, us: 1e-3, ms: 1, s: 1000 }

/** Splits at an unescaped separator outside quotes. */
function split(s: string, separator: string, quotes: boolean): string[] {
  const parts: string[] = []
  let from = 0
  let quoted = false
  for (let i = 0; i < s.length; i++) {
    if (s[i] === '\\') i++
    else if (quotes && s[i] === '"') quoted = !quoted
    else if (!quoted && s[i] === separator) {
      parts.push(s.slice(from, i))
      from = i + 1
    }
  }
  parts.push(s.slice(from))
  return parts
}

const unescape = (s: string) => s.replace(/\\([,= \\"])/g, '$1')

function pair(s: string, what: string): [string, string] {
  const parts = split(s, '=', true)
  const [key = '', ...rest] = parts
  if (parts.length < 2 || key === '' || rest.join('=') === '') throw new Error(`${what} ${JSON.stringify(s)} is not name=value`)
  return [unescape(key), rest.join('=')]
}

const value = /^(-?\d+(\.\d*)?([eE][+-]?\d+)?|-?\.\d+|-?\d+[iu]|t|T|true|True|TRUE|f|F|false|False|FALSE)$/

export function checkLine(text: string, line: number, precision: Precision): Line {
  const found: Line = { line, measurement: '', tags: [], fields: [], time: null, error: '' }
  try {
    const words = split(text, ' ', true).filter(w => w !== '')
    const [series = '', fields, time, ...more] = words
    const [name = '', ...tags] = split(series, ',', false)
    found.measurement = unescape(name)
    if (name === '') throw new Error('the measurement is missing')
    found.tags = tags.map(t => pair(t, 'tag')).map(([k, v]) => [k, unescape(v)])
    if (fields === undefined) throw new Error('the fields are missing: measurement,tag=value field=1.5 time')
    found.fields = split(fields, ',', true).map(f => pair(f, 'field'))
    for (const [k, v] of found.fields) {
      if (v.startsWith('"')) throw new Error(`field ${k} is text, which time series do not hold`)
      if (!value.test(v)) throw new Error(`field ${k} is ${v}, it takes a number, an integer such as 12i, or true or false`)
    }
    if (time !== undefined) {
      if (!/^-?\d+$/.test(time)) throw new Error(`the time is ${time}, it takes an integer of ${precision}`)
      found.time = Number(time) * perMilli[precision]
    }
    if (more.length > 0) throw new Error(`${JSON.stringify(more.join(' '))} follows the time`)
  } catch (e) {
    found.error = (e as Error).message
  }
  return found
}

/** Checks each line that is neither empty nor a comment. */
export function checkLines(text: string, precision: Precision): Line[] {
  return text
    .split('\n')
    .map((s, i) => [s.trim(), i + 1] as const)
    .filter(([s]) => s !== '' && !s.startsWith('#'))
    .map(([s, n]) => checkLine(s, n, precision))
}
