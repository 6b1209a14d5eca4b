// JSON as it was written: the spelling of numbers, the order of members and members that are there twice survive.

/** User JSON within a response, as its source text. */
export class RawJSON {
  constructor(readonly text: string) {}
  toString() {
    return this.text
  }
}

export type Kind = 'key' | 'string' | 'number' | 'word' | 'punct' | 'space'
export interface Token {
  kind: Kind
  text: string
}

const lexer =
  /("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)|([{}[\],:])|([ \t\r\n]+)/y

class Cursor {
  at = 0
  constructor(readonly text: string) {}

  /** The next token that is no white space; its kind and where it ends. */
  next(): { kind: Kind; start: number } {
    for (;;) {
      lexer.lastIndex = this.at
      const m = lexer.exec(this.text)
      if (!m) throw new SyntaxError(`no JSON at character ${this.at}`)
      const start = this.at
      this.at = lexer.lastIndex
      if (m[5] !== undefined) continue
      return { start, kind: m[1] !== undefined ? 'string' : m[2] !== undefined ? 'number' : m[3] !== undefined ? 'word' : 'punct' }
    }
  }
  peek(): string {
    const was = this.at
    while (' \t\r\n'.includes(this.text[this.at] ?? 'x')) this.at++
    const c = this.text[this.at] ?? ''
    this.at = was
    return c
  }
}

/**
 * Parses an answer of the API. What stands at one of the paths ("output", "step_results.*.output", "*.input") becomes a RawJSON; null there stays null.
 * Integers that a number cannot hold become strings with their digits.
 */
export function parseRaw(text: string, paths: readonly string[] = []): unknown {
  const patterns = paths.map(p => p.split('.'))
  const cursor = new Cursor(text)
  const value = parseValue(cursor, patterns, 0)
  while (' \t\r\n'.includes(text[cursor.at] ?? 'x')) cursor.at++
  if (cursor.at !== text.length) throw new SyntaxError(`something follows the JSON at character ${cursor.at}`)
  return value
}

function parseValue(c: Cursor, patterns: string[][], depth: number): unknown {
  if (patterns.some(p => p.length === depth)) {
    while (' \t\r\n'.includes(c.text[c.at] ?? 'x')) c.at++
    const start = c.at
    skip(c)
    const source = c.text.slice(start, c.at)
    return source === 'null' ? null : new RawJSON(source)
  }
  const { kind, start } = c.next()
  const source = c.text.slice(start, c.at)
  if (kind === 'string' || kind === 'word') return JSON.parse(source)
  if (kind === 'number') return exact(source)
  if (source === '{') return parseObject(c, patterns, depth)
  if (source === '[') return parseArray(c, patterns, depth)
  throw new SyntaxError(`unexpected ${source} at character ${start}`)
}

function exact(source: string): number | string {
  const n = Number(source)
  return /^-?\d+$/.test(source) && !Number.isSafeInteger(n) ? source : n
}

function inside(patterns: string[][], depth: number, name: string) {
  return patterns.filter(p => p[depth] === '*' || p[depth] === name)
}

function parseObject(c: Cursor, patterns: string[][], depth: number): unknown {
  const object: Record<string, unknown> = {}
  if (c.peek() === '}') {
    c.next()
    return object
  }
  for (;;) {
    const { kind, start } = c.next()
    if (kind !== 'string') throw new SyntaxError(`a name is missing at character ${start}`)
    const name = JSON.parse(c.text.slice(start, c.at)) as string
    expect(c, ':')
    Object.defineProperty(object, name, {
      value: parseValue(c, inside(patterns, depth, name), depth + 1),
      enumerable: true,
      writable: true,
      configurable: true,
    })
    if (expect(c, ',}') === '}') return object
  }
}

function parseArray(c: Cursor, patterns: string[][], depth: number): unknown {
  const array: unknown[] = []
  if (c.peek() === ']') {
    c.next()
    return array
  }
  for (;;) {
    array.push(parseValue(c, inside(patterns, depth, '*'), depth + 1))
    if (expect(c, ',]') === ']') return array
  }
}

function expect(c: Cursor, of: string): string {
  const { start } = c.next()
  const got = c.text.slice(start, c.at)
  if (got.length !== 1 || !of.includes(got)) throw new SyntaxError(`${of.split('').join(' or ')} is missing at character ${start}`)
  return got
}

/** Goes over one value. It only counts brackets: the node has made the answer, and stored values may be nested to any depth. */
function skip(c: Cursor) {
  let depth = 0
  do {
    const { start } = c.next()
    const source = c.text.slice(start, c.at)
    if (source === '{' || source === '[') depth++
    if (source === '}' || source === ']') depth--
  } while (depth > 0)
}

/** Whether a text is one JSON value. */
export function isJSON(text: string): boolean {
  try {
    parseRaw(text)
    return true
  } catch {
    return false
  }
}

/** What may come next in a text of JSON. */
type Expected = 'value' | 'key' | ':' | ', or close' | 'end'

/**
 * JSON line by line, each line as tokens; numbers, names and their order are those of the source. Lines come as they are asked for, so that a large text can be
 * formatted in slices. Throws SyntaxError where the text is no JSON.
 */
export function* prettyLines(text: string, indent = 2): Generator<Token[]> {
  let line: Token[] = []
  const push = (kind: Kind, s: string) => line.push({ kind, text: s })
  const c = new Cursor(text)
  const open: string[] = []
  let expected: Expected = 'value'
  const newline = () => {
    const done = line
    line = open.length > 0 ? [{ kind: 'space', text: ' '.repeat(open.length * indent) }] : []
    return done
  }
  const after = (): Expected => (open.length > 0 ? ', or close' : 'end')
  while (c.peek() !== '') {
    const { kind, start } = c.next()
    const source = text.slice(start, c.at)
    const value = expected === 'value'
    if (value && (source === '{' || source === '[')) {
      push('punct', source)
      const close = source === '{' ? '}' : ']'
      if (c.peek() === close) {
        c.next()
        push('punct', close)
        expected = after()
        continue
      }
      open.push(close)
      expected = source === '{' ? 'key' : 'value'
      yield newline()
    } else if (value && kind !== 'punct') {
      push(kind, source)
      expected = after()
    } else if (expected === 'key' && kind === 'string') {
      push('key', source)
      expected = ':'
    } else if (expected === ':' && source === ':') {
      push('punct', ': ')
      expected = 'value'
    } else if (expected === ', or close' && source === open[open.length - 1]) {
      open.pop()
      yield newline()
      push('punct', source)
      expected = after()
    } else if (expected === ', or close' && source === ',') {
      push('punct', ',')
      yield newline()
      expected = open[open.length - 1] === '}' ? 'key' : 'value'
    } else throw new SyntaxError(`unexpected ${source} at character ${start}`)
  }
  if (expected !== 'end') throw new SyntaxError('the text ends too early')
  yield line
}

/** All lines of prettyLines. */
export const pretty = (text: string, indent = 2): Token[][] => [...prettyLines(text, indent)]

/** The lines of pretty as text. */
export function prettyText(text: string): string {
  return pretty(text)
    .map(line => line.map(t => t.text).join(''))
    .join('\n')
}
