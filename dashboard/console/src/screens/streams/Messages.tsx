import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { call, nextParam, type ApiError } from '../../api/client'
import { useCadence, useRead } from '../../api/hooks'
import type { Routes } from '../../api/routes'
import { bytes, count, dateTime } from '../../lib/format'
import { useZone } from '../../lib/prefs'
import { useRoute, view } from '../../lib/router'
import { floe, inNamespace } from '../../lib/snippets'
import { FilterBox } from '../../ui/Field'
import { Inspector } from '../../ui/Inspector'
import { Empty, NoMatch, Panel, Query } from '../../ui/Panel'
import { Payload } from '../../ui/Payload'
import { CopyButton, Snippet } from '../../ui/Snippet'
import { Moment } from '../../ui/Time'
import { VirtualRows, type Column } from '../../ui/VirtualRows'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'

const words = strings.words

type Message = Routes['GET /api/v1/streams/:name/messages'][number]
export const route = 'GET /api/v1/streams/:name/messages'
const page = 200
const mostKept = 10_000
const preview = 400

/** Partitions are appended to beside each other: what has an earlier id than the last one seen may come a little after it. */
const overlapMillis = 2000
const mostPages = 5 // in a row while following: then it is drawn, and reading continues

/** The read of the last messages, which the tape shares. */
export const lastMessages = (name: string, ns: string, partition: string) => ({
  name,
  namespace: ns,
  partition,
  limit: page,
  max_payload: preview,
  fields: 'all',
  tail: true,
})

const idOf = (m: Message) => `${m.id_ms}-${m.id_seq}`

/** The records of a stream: the last ones, or those from a time on. Following keeps what has come, up to a bound. */
export function Messages({ name, partitions }: { name: string; partitions: number }) {
  const { ns, query } = useRoute()
  const zone = useZone()
  const from = query['from'] ?? ''
  const to = Number((query['to'] ?? '').split('-')[0]) || Infinity
  const partition = query['p'] ?? ''
  const open = query['msg'] ?? ''
  const follow = query['follow'] === '1'
  const filter = query['filter'] ?? ''
  const base = { name, namespace: ns, partition, limit: page, max_payload: preview, fields: 'all' }
  const first = useRead(route, from ? { ...base, from } : lastMessages(name, ns, partition), from || follow ? 0 : 2000, { keep: true })
  const [more, setMore] = useState<Message[]>([])
  const [next, setNext] = useState('')
  const [problem, setProblem] = useState<ApiError | null>(null)
  const busy = useRef(false)
  const scope = `${ns} ${name} ${partition} ${from}`
  useEffect(() => {
    setMore([])
    setNext('')
  }, [scope])
  useEffect(() => {
    if (from) setNext(first.data ? nextParam(first.data.next, 'after') : '')
    else if (follow && first.data && !first.isPlaceholderData) setMore(now => join(now, first.data!.data).slice(-mostKept))
  }, [first.data, from, follow])
  useFollow(base, follow && !from, more, setMore, setProblem)
  const all = useMemo(() => {
    // While following, what was read first is among the others, as long as it is kept.
    const joined = follow && !from && more.length > 0 ? more : from ? join(first.data?.data ?? [], more) : (first.data?.data ?? [])
    return joined.filter(m => m.id_ms < to)
  }, [first.data, more, from, follow, to])
  // Records that keep coming are listed newest first; from a chosen time on they are read forwards.
  const rows = useMemo(() => {
    const found = filter ? all.filter(m => m.key?.includes(filter) || m.payload.includes(filter)) : all
    return from ? found : [...found].reverse()
  }, [all, filter, from])
  const load = async () => {
    if (busy.current || next === '' || all.length >= mostKept || (all[all.length - 1]?.id_ms ?? 0) >= to) return
    busy.current = true
    try {
      const answer = await call(route, { ...base, after: next })
      setMore(now => join(now, answer.data))
      setNext(nextParam(answer.next, 'after'))
      setProblem(null)
    } catch (e) {
      setProblem(e as ApiError)
    }
    busy.current = false
  }
  const columns: Column<Message>[] = [
    { key: 'time', title: words.time, width: '190px', cell: m => <span title={idOf(m)}>{dateTime(m.id_ms, zone)}</span> },
    ...(partitions > 1 ? [{ key: 'partition', title: words.part, width: '40px', num: true, spare: 1, cell: (m: Message) => String(m.partition ?? '') }] : []),
    { key: 'key', title: words.key, width: 'minmax(80px, 160px)', spare: 2, cell: m => <span class="mono">{m.key || <span class="dim">–</span>}</span> },
    { key: 'size', title: words.size, width: '70px', num: true, spare: 3, cell: m => bytes(m.size) },
    { key: 'payload', title: words.payload, width: 'minmax(120px, 1fr)', cell: m => <span class="mono">{m.payload}</span> },
  ]
  const selected = all.find(m => idOf(m) === open)
  return (
    <div class="split">
      <Panel
        fill
        flush
        label={words.messages}
        tools={
          <>
            <FilterBox value={filter} change={v => view({ filter: v })} placeholder={say.filter} />
            {!from && (
              <label class="check">
                <input type="checkbox" checked={follow} onChange={e => view({ follow: e.currentTarget.checked ? '1' : '' })} /> {words.follow}
              </label>
            )}
            <span class="dim push nowrap" data-test="loaded">
              {from ? say.fromSelected(rows.length, next !== '') : say.theLast(count(rows.length))}
            </span>
            {from && (
              <button class="btn" onClick={() => view({ from: '', to: '', msg: '' })}>
                {say.toTheLast}
              </button>
            )}
          </>
        }
      >
        <Query q={first} missing={<Empty title={say.gone} />}>
          {() =>
            rows.length === 0 ? (
              filter ? (
                <NoMatch filter={filter} clear={() => view({ filter: '' })} />
              ) : (
                <Empty title={from ? say.noneInTime : say.noRecords}>
                  <Snippet command={floe(['stream', 'append'], inNamespace(ns), [name, '{"type":"hello"}'])} />
                </Empty>
              )
            ) : (
              <>
                <VirtualRows
                  label={words.messages}
                  rows={rows}
                  columns={columns}
                  keyOf={idOf}
                  selected={open || undefined}
                  open={m => view({ msg: idOf(m) })}
                  atEnd={() => void load()}
                />
                {problem && <div class="note crit">{problem.message}</div>}
              </>
            )
          }
        </Query>
      </Panel>
      {open && <MessageInspector key={open} ns={ns} stream={name} id={open} known={selected} close={() => view({ msg: '' })} />}
    </div>
  )
}

/** Reads on from what was seen last, page by page, so that nothing is missing however much comes. */
function useFollow(
  base: { name: string; namespace: string; partition: string; limit: number; max_payload: number; fields: string },
  on: boolean,
  seen: readonly Message[],
  set: (next: (now: Message[]) => Message[]) => void,
  say: (problem: ApiError | null) => void,
) {
  const gap = useCadence(on ? 2000 : 0)
  const last = useRef(0)
  last.current = seen[seen.length - 1]?.id_ms ?? 0
  const begun = last.current > 0
  useEffect(() => {
    if (gap === false || !begun) return
    const leave = new AbortController()
    let timer: ReturnType<typeof setTimeout>
    let next = '' // where to continue, if more is left than one batch
    const read = async () => {
      try {
        let at: { from: string } | { after: string } = next ? { after: next } : { from: `${Math.max(0, last.current - overlapMillis)}-0` }
        const come: Message[] = []
        for (let i = 0; i < mostPages && !document.hidden; i++) {
          const answer = await call(route, { ...base, ...at }, { signal: leave.signal })
          come.push(...answer.data)
          next = nextParam(answer.next, 'after')
          if (next === '') break
          at = { after: next }
        }
        if (come.length > 0) set(now => join(now, come).slice(-mostKept))
        say(null)
      } catch (e) {
        if ((e as Error).name === 'AbortError') return
        say(e as ApiError)
      }
      timer = setTimeout(() => void read(), gap)
    }
    timer = setTimeout(() => void read(), gap)
    return () => {
      leave.abort()
      clearTimeout(timer)
    }
  }, [gap, begun, base.name, base.namespace, base.partition])
}

/** Both, in order, each once. Both are in order, and b is mostly behind a. */
export function join(a: readonly Message[], b: readonly Message[]): Message[] {
  let kept = a.length
  while (kept > 0 && a[kept - 1]!.id_ms >= (b[0]?.id_ms ?? Infinity)) kept--
  const seen = new Map<string, Message>()
  for (const m of a.slice(kept)) seen.set(idOf(m), m)
  for (const m of b) seen.set(idOf(m), m)
  const rest = [...seen.values()].sort((x, y) => x.id_ms - y.id_ms || Number(x.id_seq) - Number(y.id_seq))
  return [...a.slice(0, kept), ...rest]
}

function MessageInspector({ ns, stream, id, known, close }: { ns: string; stream: string; id: string; known: Message | undefined; close: () => void }) {
  const args = { name: stream, namespace: ns, from: id, limit: 1, fields: 'all' }
  const q = useRead(route, args, 0)
  const m = q.data?.data[0] && idOf(q.data.data[0]) === id ? q.data.data[0] : known
  return (
    <Inspector title={id} close={close}>
      <Query q={q}>
        {(_, answer) =>
          !m ? (
            <Empty title={say.notKept} />
          ) : (
            <>
              <dl class="facts">
                <dt>{words.time}</dt>
                <dd>
                  <Moment at={m.id_ms} />
                </dd>
                <dt>{words.partition}</dt>
                <dd>{m.partition}</dd>
                <dt>{words.key}</dt>
                <dd class="mono row">
                  {m.key ? (
                    <>
                      <span class="grow">{m.key}</span> <CopyButton text={m.key} label={say.copyTheKey} />
                    </>
                  ) : (
                    '–'
                  )}
                </dd>
                <dt>{say.logIndex}</dt>
                <dd>{count(m.ual_index)}</dd>
                <dt>{words.size}</dt>
                <dd>{bytes(m.size)}</dd>
                {Object.entries(m.headers ?? {})
                  .sort(([a], [b]) => (a < b ? -1 : 1))
                  .map(([k, v]) => [
                    <dt key={k}>{k}</dt>,
                    <dd key={k + '='} class="mono">
                      {v}
                    </dd>,
                  ])}
              </dl>
              <Payload
                text={m.payload}
                size={m.size}
                lossy={answer.lossy}
                label={words.thePayload}
                file={`${stream}-${id}`}
                base64={async () => (await call(route, { ...args, encoding: 'base64' })).data[0]?.payload ?? ''}
              />
              <Snippet command={floe(['stream', 'read'], { ...inNamespace(ns), from: id, limit: '1' }, [stream])} />
            </>
          )
        }
      </Query>
    </Inspector>
  )
}
