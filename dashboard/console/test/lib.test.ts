import { describe, expect, test, vi } from 'vitest'
import { pause } from '../src/api/hooks'
import { authEnabled } from '../src/api/session'
import { diffLines } from '../src/lib/diff'
import { ago, bytes, dateTime, duration, percent, rate } from '../src/lib/format'
import { completing, errorPlace, tokens } from '../src/lib/floql'
import { isJSON, parseRaw, pretty, prettyLines, prettyText, RawJSON } from '../src/lib/json'
import { more, type Sliced } from '../src/lib/slices'
import { checkLines } from '../src/lib/lineproto'
import { parseRange } from '../src/lib/range'
import { busiest } from '../src/lib/namespaces'
import { Meter, rates } from '../src/lib/rate'
import { formatRoute, parseRoute } from '../src/lib/router'
import { addrOf, clientAddr, curl, floe, quote } from '../src/lib/snippets'
import { durationText, parseCount, parseDuration, parseSize, sizeText } from '../src/lib/quantities'
import { nameIn } from '../src/screens/processing/Submit'
import { placeOf } from '../src/screens/streams/Seek'
import { bars, fold, position } from '../src/lib/timeline'
import { asText, fromBase64, hexLines, toBase64 } from '../src/lib/bytes'
import { join } from '../src/screens/streams/Messages'
import { lagOf, type Job } from '../src/screens/processing/Processing'
import { inBuckets } from '../src/screens/streams/StreamDetail'
import { inWords, windowOf } from '../src/screens/ts/Measurement'
import { fitting } from '../src/ui/VirtualRows'

/** A generator of the same numbers each time. */
function random(seed: number) {
  return () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648
}

describe('router', () => {
  test('what was opened comes back, whatever it is called', () => {
    for (const id of ['a/b', 'a//b', '..', '.', '%2F', '%', 'line\nfeed', '🐧', 'é', '#?&=', ' ', 'a+b', '"']) {
      const r = { ns: 'shop', screen: 'kv', id: [id], query: { prefix: id, tab: 'history' } }
      expect(parseRoute(formatRoute(r))).toEqual(r)
    }
  })
  test('pages without a namespace, and what nobody has typed', () => {
    expect(parseRoute('#/login?next=%23%2Fa%2Fkv')).toEqual({ ns: '', screen: 'login', id: [], query: { next: '#/a/kv' } })
    expect(parseRoute('')).toEqual({ ns: 'default', screen: 'overview', id: [], query: {} })
    expect(parseRoute('#/login/kv').ns).toBe('login')
    expect(parseRoute('#/a/kv/%').id).toEqual(['%'])
  })
})

describe('json', () => {
  function value(next: () => number, depth: number): unknown {
    const n = Math.floor(next() * (depth > 3 ? 4 : 6))
    if (n === 0) return Math.floor(next() * 1e9) - 5e8
    if (n === 1) return 'x"\\\n\u2028é🐧'.slice(0, Math.floor(next() * 8))
    if (n === 2) return next() < 0.5
    if (n === 3) return null
    if (n === 4) return Array.from({ length: Math.floor(next() * 4) }, () => value(next, depth + 1))
    return Object.fromEntries(Array.from({ length: Math.floor(next() * 4) }, (_, i) => ['k' + i, value(next, depth + 1)]))
  }
  test('parseRaw reads what JSON.parse reads', () => {
    const next = random(7)
    for (let i = 0; i < 2000; i++) {
      const v = value(next, 0)
      const text = JSON.stringify(v, null, i % 3)
      expect(parseRaw(text)).toEqual(v)
      expect(JSON.parse(prettyText(text))).toEqual(v)
    }
  })
  test('paths are kept as they were written, large integers as text', () => {
    const v = parseRaw('{"a":{"x": {"output" : [1.10, {"b":1e400}] }},"n":9007199254740993,"output":null,"__proto__":1}', ['a.*.output', 'output']) as {
      a: { x: { output: RawJSON } }
      n: string
      output: null
    }
    expect(v.a.x.output.text).toBe('[1.10, {"b":1e400}]')
    expect(v.n).toBe('9007199254740993')
    expect(v.output).toBe(null)
    expect(Object.keys(v)).toContain('__proto__')
  })
  test('pretty keeps numbers, order and members that are there twice', () => {
    expect(prettyText('{"b":1.10,"a":9007199254740993,"b":[],"c":{}}')).toBe('{\n  "b": 1.10,\n  "a": 9007199254740993,\n  "b": [],\n  "c": {}\n}')
    expect(pretty('"x"')).toEqual([[{ kind: 'string', text: '"x"' }]])
  })
  test('what is no JSON is none', () => {
    for (const bad of [
      '',
      '{',
      '[1,]',
      '{"a"}',
      '01',
      'nul',
      '"\n"',
      '1 2',
      '{a:1}',
      "'x'",
      '[1 2]',
      '{"a":1,}',
      'NaN',
      '[}',
      '{]',
      '{"a":]',
      '['.repeat(30_000), // deeper than calls can be,
    ]) {
      expect(isJSON(bad)).toBe(false)
      expect(() => pretty(bad)).toThrow(SyntaxError)
    }
  })
  test('the formatter takes what the parser takes', () => {
    const next = random(11)
    const parts = ['{', '}', '[', ']', ',', ':', '"a"', '1', 'true', ' ']
    let taken = 0
    for (let i = 0; i < 5000; i++) {
      const text = Array.from({ length: 1 + Math.floor(next() * 7) }, () => parts[Math.floor(next() * parts.length)]).join('')
      let formatted = true
      try {
        pretty(text)
      } catch {
        formatted = false
      }
      if (formatted !== isJSON(text)) expect(text).toBe(formatted ? 'refused' : 'formatted')
      taken += formatted ? 1 : 0
    }
    expect(taken).toBeGreaterThan(100)
  })
  test('a large text is made in slices of time, and as it is where it turns out to be no JSON', () => {
    let clock = 0
    const now = () => clock++ // each line takes a millisecond
    const work: Sliced<string> = { made: [], done: false }
    const source = { from: Array.from({ length: 20 }, (_, i) => `line ${i}`).values() as Iterator<string> }
    const sizes: number[] = []
    while (!work.done) {
      more(work, source, () => [].values(), now)
      sizes.push(work.made.length)
    }
    expect(sizes.length).toBeGreaterThan(2)
    expect(sizes[0]).toBeLessThan(10)
    expect(work.made.length).toBe(20)
    const broken: Sliced<unknown> = { made: [], done: false }
    more<unknown>(
      broken,
      { from: prettyLines('[1,\n2,\n') },
      () => ['[1,', '2,', ''].values(),
      () => 0,
    )
    expect(broken).toEqual({ made: ['[1,', '2,', ''], done: true })
  })
})

test('formats', () => {
  expect([0.4, 5, 999, 1000, 59_900, 61_000, 3_700_000, 90_000_000].map(duration)).toEqual([
    '0.40\u00a0ms', // which no line breaks at
    '5\u00a0ms',
    '999\u00a0ms',
    '1.0\u00a0s',
    '60\u00a0s',
    '1m 1s',
    '1h 1m',
    '1d 1h',
  ])
  expect([0, 1023, 1024, 10 << 20].map(bytes)).toEqual(['0\u00a0B', '1,023\u00a0B', '1.0\u00a0KiB', '10\u00a0MiB'])
  expect([0, 0.251, 3.44, 1200.4].map(rate)).toEqual(['0', '0.25', '3.4', '1,200'])
  expect(percent(1, 30)).toBe('3.3\u00a0%')
  expect(ago(1000, 500)).toBe('now')
  expect(ago(0, 61_000)).toBe('1m ago')
  expect(dateTime(1_700_000_000_123, 'utc')).toBe('2023-11-14 22:13:20.123Z')
})

test('times are those of the zone that is asked for, wherever one is', async () => {
  const usual = process.env['TZ']
  // The hour in which summer time begins in Berlin.
  const at = Date.UTC(2024, 2, 31, 1)
  for (const [zone, local] of [
    ['UTC', '01:00:00'],
    ['Europe/Berlin', '03:00:00'],
    ['Asia/Kolkata', '06:30:00'],
  ] as const) {
    process.env['TZ'] = zone
    vi.resetModules()
    const f = await import('../src/lib/format')
    expect([f.dateTime(at, 'local'), f.timeOfDay(at, 'local'), f.dateTime(at, 'utc')]).toEqual([`2024-03-31 ${local}.000`, local, '2024-03-31 01:00:00.000Z'])
  }
  if (usual === undefined) delete process.env['TZ']
  else process.env['TZ'] = usual
})

test('commands are quoted for a shell', () => {
  expect(quote('plain-1.2/x')).toBe('plain-1.2/x')
  expect(quote("it's $HOME\n`x`")).toBe("'it'\\''s $HOME\n`x`'")
  expect(quote('')).toBe("''")
  expect(floe(['kv', 'set'], { n: 'shop', ttl: undefined, 'if-absent': true }, ['-k', 'a b'])).toBe("floe kv set -n shop --if-absent -- -k 'a b'")
  expect(curl('PUT', '/kv/x', { a: '1', b: '' }, "it's")).toBe(
    "curl -X PUT 'http://localhost:3000/api/v1/kv/x?a=1' --data-binary 'it'\\''s'".replace(
      'http://localhost:3000/',
      new URL('.', document.baseURI.startsWith('http') ? document.baseURI : 'http://localhost/').toString(),
    ),
  )
})

test('a call takes the token from the environment where one has to be signed in', () => {
  expect(curl('GET', '/kv')).not.toContain('Authorization')
  authEnabled.set(true)
  expect(curl('GET', '/kv')).toContain('-H "Authorization: Bearer $FLOE_TOKEN"')
  authEnabled.set(false)
})

test('reads that fail are repeated the later the more often, at the latest after a minute, and when the node asks for it', () => {
  expect([0, 1, 2, 3, 10].map(failed => pause(2000, failed, 0))).toEqual([2000, 4000, 8000, 16_000, 60_000])
  expect(pause(2000, 1, 90_000)).toBe(90_000)
})

test('messages that come are joined to those that are there: in order, each once', () => {
  const m = (id_ms: number, id_seq: number, partition = 0) => ({ id_ms, id_seq, partition }) as unknown as Parameters<typeof join>[0][number]
  const ids = (all: ReturnType<typeof join>) => all.map(x => `${x.id_ms}-${x.id_seq}`)
  expect(ids(join([m(1, 0), m(2, 0), m(2, 1)], [m(2, 1), m(3, 0)]))).toEqual(['1-0', '2-0', '2-1', '3-0'])
  // Of another partition, and late.
  expect(ids(join([m(1, 0), m(5, 0)], [m(3, 0, 1), m(5, 0), m(6, 0)]))).toEqual(['1-0', '3-0', '5-0', '6-0'])
  expect(ids(join([m(1, 0)], []))).toEqual(['1-0'])
  expect(ids(join([], [m(1, 0)]))).toEqual(['1-0'])
})

test('records by time: what is outside of it counts nowhere', () => {
  const at = (id_ms: number) => ({ id_ms, size: 10 })
  const a = inBuckets([at(99), at(100), at(109), at(115), at(130)], { from: 100, step: 10, n: 3 })
  expect([a.records, a.bytes, a.from, a.to]).toEqual([[2, 1, 0], [20, 10, 0], 100, 130])
})

test('rates of counters: a fall is a gap', () => {
  expect(
    rates([
      { at: 0, total: 10 },
      { at: 1000, total: 30 },
      { at: 2000, total: 5 },
      { at: 2500, total: 10 },
    ]).map(r => r.value),
  ).toEqual([20, null, 10])
  const m = new Meter(5000)
  for (let i = 0; i < 100; i++) m.add(i * 1000, i)
  expect(m.now()).toBe(1)
  expect(m.samples.length).toBeLessThan(8)
  // Reads just after each other are one: a screen was opened from another one that counts the same.
  m.add(99_100, 500)
  expect(m.now()).toBeCloseTo(402 / 1.1)
  m.add(101_000, 3)
  expect(m.now()).toBe(null)
})

test('the namespace that opens if none was chosen', () => {
  const ns = (name: string, kv_count: number, stream_count = 0, is_system = false) => {
    return { name, is_system, kv_count, stream_count, queue_count: 0, workflow_count: 0, processing_count: 0, action_count: 0 }
  }
  expect(busiest([ns('default', 1), ns('shop', 9)])).toBe('')
  expect(busiest([ns('default', 0), ns('a', 3), ns('shop', 2, 5), ns('_sys', 99, 0, true)])).toBe('shop')
  expect(busiest([ns('default', 0), ns('a', 0)])).toBe('')
  expect(busiest([])).toBe('')
})

test('the lag of a job that has read everything is no lag', () => {
  const job = (over: object) => ({ metrics: { running: true, watermark_ms: 1, watermark_lag_ms: 90_000, records_behind: 0, idle_ms: 90_000, ...over } }) as Job
  expect(lagOf(job({}))).toBe('caught up')
  expect(lagOf(job({ records_behind: 7 }))).toBe('1m 30s')
  expect(lagOf(job({ records_behind: undefined }))).toBe('1m 30s')
  expect(lagOf(job({ idle_ms: 20 }))).toBe('1m 30s')
  expect(lagOf(job({ running: false }))).toBe('–')
  // Idle inputs have no watermark.
  expect(lagOf(job({ watermark_ms: 0 }))).toBe('caught up')
  expect(lagOf(job({ watermark_ms: 0, records_behind: 7 }))).toBe('–')
})

test('windows as FloQL has them', () => {
  expect([200, 10_000, 60_000, 900_000, 7_200_000, 86_400_000].map(inWords)).toEqual(['200ms', '10s', '1m', '15m', '2h', '1d'])
  expect([windowOf('cpu[1h] | window(10s) | avg()'), windowOf('cpu[1h]'), windowOf(undefined)]).toEqual(['10s', '', ''])
})

test('line protocol', () => {
  const found = checkLines(
    'cpu,host=web-01,r\\,e=e\\ u usage=1.5,n=3i 1700000000000\n# no\n\ncpu usage\ncpu a=x 1\ncpu a="t"\n,a=1 b=2\ncpu a=1 1.5\ncpu a=1 1 2',
    'ms',
  )
  expect(found.map(l => [l.line, l.error === ''])).toEqual([
    [1, true],
    [4, false],
    [5, false],
    [6, false],
    [7, false],
    [8, false],
    [9, false],
  ])
  expect(found[0]).toMatchObject({
    measurement: 'cpu',
    tags: [
      ['host', 'web-01'],
      ['r,e', 'e u'],
    ],
    fields: [
      ['usage', '1.5'],
      ['n', '3i'],
    ],
    time: 1700000000000,
  })
})

test('floql', () => {
  const text = 'cpu{host=~web*}[1h] | window(5m) | avgg() # x'
  expect(
    tokens(text)
      .filter(t => !['punct', 'word'].includes(t.kind))
      .map(t => [t.kind, text.slice(t.from, t.to)]),
  ).toEqual([
    ['measurement', 'cpu'],
    ['tag', 'host'],
    ['operator', '=~'],
    ['operator', '*'],
    ['number', '1h'],
    ['stage', 'window'],
    ['number', '5m'],
    ['unknown', 'avgg'],
    ['comment', '# x'],
  ])
  const at = (t: string) => completing(t, t.length).what
  expect([at('cp'), at('cpu{ho'), at('cpu{host='), at('cpu{a=b,c='), at('cpu[1h] | av'), at('cpu | field('), at('cpu | group_by(ho')]).toEqual([
    'measurement',
    'tag',
    'value',
    'value',
    'stage',
    'field',
    'groupTag',
  ])
  expect(errorPlace('col 14: unknown stage', text)).toBe(13)
  expect(errorPlace('line 2, column 3: x', 'ab\ncdef')).toBe(5)
})

test('ranges', () => {
  expect(parseRange('6h', 10 * 3_600_000)).toEqual({ from: 4 * 3_600_000, to: 10 * 3_600_000, relative: true })
  expect(parseRange('5..9', 0)).toEqual({ from: 5, to: 9, relative: false })
  expect(parseRange('9..5', 3_600_000).relative).toBe(true)
})

test('timeline: steps are paired, retries and waits are segments, idle time is folded', () => {
  const e = (event_type: string, step_name: string, timestamp: number) => ({ event_type, step_name, timestamp })
  const events = [
    e('workflow_started', '', 0),
    e('step_started', 'a', 0),
    e('awaiting_action', 'a', 0),
    e('step_retry', 'a', 10),
    e('step_completed', 'a', 20),
    e('step_started', 'b', 20),
    e('waiting_for_signal', 'b', 25),
    e('signal_received', 'b', 1000),
    e('step_completed', 'b', 1005),
    e('step_started', 'a', 1005),
  ]
  const all = bars(events, 1010)
  expect(all.map(b => [b.step, b.visit, b.from, b.to, b.outcome, b.retries, b.waitedFor.length])).toEqual([
    ['a', 1, 0, 20, 'ok', 1, 0],
    ['b', 1, 20, 1005, 'ok', 0, 1],
    ['a', 2, 1005, 1010, 'open', 0, 0],
  ])
  expect(all[1]!.segments.map(s => s.kind)).toEqual(['work', 'wait', 'work'])
  // A running step is not idle, however long it is silent; a branch ends with its action; and no step of an ended run is open.
  const slow = bars(
    [
      { event_type: 'step_started', step_name: 'ship', timestamp: 0 },
      { event_type: 'awaiting_action', step_name: 'ship[0]', timestamp: 1 },
      { event_type: 'action_completed', step_name: 'ship[0]', timestamp: 900 },
      { event_type: 'step_completed', step_name: 'ship', timestamp: 901 },
    ],
    1000,
  )
  expect(slow.map(b => [b.step, b.to, b.outcome])).toEqual([
    ['ship', 901, 'ok'],
    ['ship[0]', 900, 'ok'],
  ])
  const stamps = [0, 1, 900, 901].map(timestamp => ({ timestamp }))
  expect(fold(stamps, 0, 1000).some(s => s.folded)).toBe(true)
  expect(fold(stamps, 0, 1000, slow).some(s => s.folded)).toBe(false)
  const axis = fold(events, 0, 1010)
  expect(axis.filter(s => s.folded)).toEqual([{ from: 25, to: 1000, folded: true }])
  const places = [0, 10, 25, 500, 1000, 1010].map(t => position(axis, t))
  expect([...places].sort((a, b) => a - b)).toEqual(places)
  expect(places[0]).toBe(0)
  expect(places[5]).toBeCloseTo(1)
})

test('bytes', () => {
  const b = new Uint8Array([0x89, 0x50, 0, 255])
  expect(fromBase64(toBase64(b))).toEqual(b)
  expect(asText(b)).toBe(null)
  expect([...hexLines(b)][0]).toContain('89 50 00 ff')
})

test('differences', () => {
  expect(diffLines('a\nb\nc', 'a\nx\nc')!.map(l => l.sign + l.text)).toEqual([' a', '-b', '+x', ' c'])
  expect(
    diffLines('{"a":1}', '{"a":2}')!
      .filter(l => l.sign !== ' ')
      .map(l => l.text.trim()),
  ).toEqual(['"a": 1', '"a": 2'])
})

test('columns that are spare go where there is no room, the highest number first', () => {
  const column = (key: string, width: string, spare?: number) => ({ key, title: key, width, cell: () => null, ...(spare ? { spare } : {}) })
  const all = [column('name', 'minmax(100px, 1fr)'), column('a', '50px', 2), column('b', '50px', 1), column('c', '50px')]
  const keys = (width: number) => fitting(all, width).map(c => c.key)
  expect(keys(400)).toEqual(['name', 'a', 'b', 'c'])
  expect(keys(300)).toEqual(['name', 'b', 'c'])
  expect(keys(10)).toEqual(['name', 'c'])
})

test('quantities: durations and sizes as the command line has them', () => {
  for (const [text, ms] of [
    ['0', 0],
    ['0s', 0],
    ['500ms', 500],
    ['1.5s', 1500],
    ['30s', 30_000],
    ['2m', 120_000],
    ['1h30m', 5_400_000],
    ['7d', 7 * 86_400_000],
    ['1d12h', 36 * 3_600_000],
  ] as const) {
    expect([text, parseDuration(text)]).toEqual([text, ms])
    expect(parseDuration(durationText(ms))).toBe(ms)
  }
  for (const text of ['', '5', '1w', 's', '-1s', '1m1h', '1e3s']) expect([text, parseDuration(text)]).toEqual([text, null])
  expect([5_400_500, 36 * 3_600_000, 0].map(durationText)).toEqual(['1h30m500ms', '36h', '0s'])
  expect(['0', '100', '64KiB', '1 MiB', '1MB', 'x', '-1', '9999999TiB'].map(parseSize)).toEqual([0, 100, 65_536, 1 << 20, null, null, null, null])
  expect([0, 100, 65_536, 3 << 20].map(sizeText)).toEqual(['0', '100', '64KiB', '3MiB'])
  expect(['0', '12', '', '1.5', '-1'].map(parseCount)).toEqual([0, 12, null, null, null])
})

test('snippets: commands name the node where it is not at the default address', () => {
  for (const [listen, host, addr] of [
    ['', 'db-1', ''],
    ['127.0.0.1:9000', 'localhost', ''],
    ['127.0.0.1:9000', 'db-1', ''],
    ['0.0.0.0:9000', '127.0.0.1', ''],
    ['[::]:9000', 'db-1.example.com', 'db-1.example.com:9000'],
    ['[::]:7000', 'localhost', '127.0.0.1:7000'],
    ['10.0.0.5:9000', 'localhost', '10.0.0.5:9000'],
  ] as const)
    expect([listen, host, addrOf(listen, host)]).toEqual([listen, host, addr])
  clientAddr.set('db-1:7000')
  expect(floe(['queue', 'pause'], { n: 'shop' }, ['mail'])).toBe('floe queue pause --addr db-1:7000 -n shop mail')
  clientAddr.set('')
  expect(floe(['ts', 'import'], {}, ['-'])).toBe('floe ts import -')
})

test('forms: the place of a group, the name in a definition', () => {
  expect(['1700000000000-3', ' 17 ', '2026-01-31T12:00Z', 'now', '2026-99-01'].map(placeOf)).toEqual(['1700000000000-3', '17', '1769860800000', '', ''])
  expect(['kind: Processing\nname: a-b\n', 'sources:\n  - name: x\nname: "y z" # it', '{ "name": "q" }', 'name:'].map(nameIn)).toEqual(['a-b', 'y z', 'q', ''])
})
