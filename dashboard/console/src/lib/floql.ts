// FloQL as the editor colours and completes it. The node parses; this knows only words.
import { stageDocs } from '../strings/floql'

export interface Stage {
  name: string
  args: string
  doc: string
}

export const stages: Stage[] = [
  ['field', 'a, b'],
  ['window', '5m'],
  ['avg', ''],
  ['sum', ''],
  ['count', ''],
  ['min', ''],
  ['max', ''],
  ['first', ''],
  ['last', ''],
  ['median', ''],
  ['stddev', ''],
  ['spread', ''],
  ['percentile', '99'],
  ['rate', '1m'],
  ['increase', '1m'],
  ['delta', ''],
  ['derivative', '1s'],
  ['where', 'value > 0'],
  ['math', 'value * 2'],
  ['group_by', 'host'],
  ['topk', '5'],
  ['bottomk', '5'],
  ['sort', 'desc'],
  ['limit', '100'],
  ['fill', '0'],
  ['moving_avg', '5'],
  ['cumsum', ''],
  ['abs', ''],
  ['ceil', ''],
  ['floor', ''],
  ['round', '2'],
  ['clamp', '0, 100'],
  ['shift', '1d'],
  ['alias', 'name'],
  ['join', '+, cpu'],
].map(([name, args]) => ({ name: name!, args: args!, doc: stageDocs[name as keyof typeof stageDocs] }))

const known = new Set(stages.map(s => s.name))

export type Kind = 'comment' | 'string' | 'number' | 'stage' | 'unknown' | 'measurement' | 'tag' | 'operator' | 'word' | 'punct'
export interface Token {
  kind: Kind
  from: number
  to: number
}

const lexer =
  /(\s+)|(#[^\n]*)|("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)|(-?\d+(?:\.\d+)?(?:ms|mo|[smhdwy])?(?:\d+(?:ms|mo|[smhdwy]))*(?![A-Za-z_]))|(=~|!~|!=|==|>=|<=|&&|\|\||\.\.|[=<>!*/+-])|([A-Za-z_][\w.:/-]*)|([{}[\]()|,])|(.)/gy

/** The tokens of a query, in order; white space has none. */
export function tokens(text: string): Token[] {
  const found: Token[] = []
  let depth = '' // brackets that are open
  let startOfStage = false
  let sourceSeen = false
  lexer.lastIndex = 0
  for (let m = lexer.exec(text); m; m = lexer.exec(text)) {
    const from = m.index
    const to = lexer.lastIndex
    if (m[1] !== undefined) continue
    let kind: Kind = 'word'
    if (m[2] !== undefined) kind = 'comment'
    else if (m[3] !== undefined) kind = 'string'
    else if (m[4] !== undefined) kind = 'number'
    else if (m[5] !== undefined) kind = 'operator'
    else if (m[6] !== undefined) {
      if (!sourceSeen && depth === '') kind = 'measurement'
      else if (startOfStage) kind = known.has(m[6]) ? 'stage' : 'unknown'
      else if (depth.endsWith('{') && /^\s*(=|!)/.test(text.slice(to))) kind = 'tag'
    } else if (m[7] !== undefined) {
      kind = 'punct'
      if ('{[('.includes(m[7])) depth += m[7]
      if ('}])'.includes(m[7])) depth = depth.slice(0, -1)
    }
    if (kind === 'measurement' || kind === 'string') sourceSeen = true
    if (kind !== 'comment') startOfStage = m[7] === '|' && depth === ''
    found.push({ kind, from, to })
  }
  return found
}

/** What can stand at a place of a query: a measurement, a stage, the name of a tag, or a value of one. */
export function completing(
  text: string,
  at: number,
): { what: 'measurement' | 'stage' | 'tag' | 'value' | 'field' | 'groupTag' | ''; from: number; measurement: string; tag: string } {
  const before = text.slice(0, at)
  const word = /[\w.:/-]*$/.exec(before)![0]
  const from = at - word.length
  const head = before.slice(0, from).trimEnd()
  const source = /^\s*(?:#[^\n]*\n\s*)*([A-Za-z_][\w.:/-]*|"[^"]*")/.exec(text)?.[1]?.replaceAll('"', '') ?? ''
  const open = (a: string, b: string) => head.lastIndexOf(a) > head.lastIndexOf(b)
  const result = { from, measurement: source, tag: '' }
  if (head === '' || (/\n\s*$/.test(head) && !head.includes('|') && head.trim().startsWith('#'))) return { ...result, what: 'measurement' }
  if (open('{', '}')) {
    const tag = /([\w.:/-]+)\s*(?:=~|!~|!=|=)\s*$/.exec(head)
    return tag ? { ...result, what: 'value', tag: tag[1]! } : { ...result, what: 'tag' }
  }
  if (/\|$/.test(head)) return { ...result, what: 'stage' }
  const call = /([a-z_]+)\s*\([^()]*$/.exec(head)
  if (call?.[1] === 'field') return { ...result, what: 'field' }
  if (call?.[1] === 'group_by') return { ...result, what: 'groupTag' }
  return { ...result, what: '' }
}

/** Where an error of the node points: "col 14: ..." or "line 2 col 5: ...". */
export function errorPlace(message: string, text: string): number | null {
  const m = /(?:line (\d+)[ ,]*)?col(?:umn)? (\d+)/.exec(message)
  if (!m) return null
  const lines = text.split('\n')
  let at = 0
  for (let i = 0; i < Number(m[1] ?? 1) - 1 && i < lines.length; i++) at += lines[i]!.length + 1
  return Math.min(text.length, at + Number(m[2]) - 1)
}
