// The line protocol, as far as the ingest helper shows it while it is typed. The node decides; this only points.
import { lines as say } from '../strings/ts'

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
  if (parts.length < 2 || key === '' || rest.join('=') === '') throw new Error(say.noPair(what, JSON.stringify(s)))
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
    if (name === '') throw new Error(say.noMeasurement)
    found.tags = tags.map(t => pair(t, say.tag)).map(([k, v]) => [k, unescape(v)])
    if (fields === undefined) throw new Error(say.noFields)
    found.fields = split(fields, ',', true).map(f => pair(f, say.field))
    for (const [k, v] of found.fields) {
      if (v.startsWith('"')) throw new Error(say.textField(k))
      if (!value.test(v)) throw new Error(say.badField(k, v))
    }
    if (time !== undefined) {
      if (!/^-?\d+$/.test(time)) throw new Error(say.badTime(time, precision))
      found.time = Number(time) * perMilli[precision]
    }
    if (more.length > 0) throw new Error(say.more(JSON.stringify(more.join(' '))))
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
