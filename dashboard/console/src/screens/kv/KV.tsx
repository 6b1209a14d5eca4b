import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { call, serverNow, type Answer, type ApiError } from '../../api/client'
import { useRead } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Routes } from '../../api/routes'
import { bytes, count } from '../../lib/format'
import { useDraft } from '../../lib/draft'
import { useKeys } from '../../lib/keys'
import { go, link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { Count, VirtualRows, type Column } from '../../ui/VirtualRows'
import { FilterBox } from '../../ui/Field'
import { NoneIn } from '../../ui/NoneIn'
import { Empty, NoMatch, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Ago, Left } from '../../ui/Time'
import { KeyInspector } from './KeyInspector'
import { WriteKey } from './WriteKey'
import { strings } from '../../strings'
import { kv as say } from '../../strings/kv'

const words = strings.words

const route = 'GET /api/v1/console/kv/namespaces/:namespace/keys'
/** A key, with the time until which it lives: null if it does not expire. */
type Item = Routes[typeof route]['keys'][number] & { until: number | null }

interface Page {
  keys: Item[]
  cursor: string
}

const pageOf = ({ data, at }: Answer<Routes[typeof route]>): Page => ({
  cursor: data.cursor,
  keys: data.keys.map(k => ({ ...k, until: k.ttl_ms === null ? null : at - Date.now() + serverNow() + k.ttl_ms })),
})

const pageSize = 500
const mostLoaded = 10_000

/** A row of the list: a key, or the keys that share what comes before a separator. */
interface Row {
  key: string
  item: Item | null
  grouped: number
}

function grouped(items: readonly Item[], prefix: string, separator: string): Row[] {
  if (separator === '') return items.map(item => ({ key: item.key, item, grouped: 0 }))
  const rows: Row[] = []
  for (const item of items) {
    const at = item.key.indexOf(separator, prefix.length)
    const head = at < 0 ? '' : item.key.slice(0, at + separator.length)
    const last = rows[rows.length - 1]
    if (head && last && !last.item && last.key === head) last.grouped++
    else if (head) rows.push({ key: head, item: null, grouped: 1 })
    else rows.push({ key: item.key, item, grouped: 0 })
  }
  return rows
}

/** Pages behind the first one, as far as the list was scrolled. */
function usePages(ns: string, prefix: string, first: Page | undefined) {
  const [more, setMore] = useState<Page | null>(null)
  const [problem, setProblem] = useState<ApiError | null>(null)
  const busy = useRef(false)
  useEffect(() => {
    setMore(null)
    setProblem(null)
  }, [ns, prefix])
  const keys = useMemo(() => {
    const seen = new Map<string, Item>()
    for (const k of more?.keys ?? []) seen.set(k.key, k)
    for (const k of first?.keys ?? []) seen.set(k.key, k)
    if (!more) return first?.keys ?? []
    return [...seen.values()].sort((a, b) => (a.key < b.key ? -1 : 1))
  }, [first, more])
  const cursor = more ? more.cursor : (first?.cursor ?? '')
  const load = async () => {
    if (busy.current || cursor === '' || keys.length >= mostLoaded) return
    busy.current = true
    try {
      const next = pageOf(await call(route, { namespace: ns, prefix, limit: pageSize, cursor }))
      setMore(now => ({ keys: [...(now?.keys ?? first?.keys ?? []), ...next.keys], cursor: next.cursor }))
      setProblem(null)
    } catch (e) {
      setProblem(e as ApiError)
    }
    busy.current = false
  }
  return { keys, hasMore: cursor !== '', load, problem }
}

export default function KV() {
  const { ns, id, query } = useRoute()
  const prefix = query['prefix'] ?? ''
  const separator = query['group'] ?? ''
  const open = id[0]
  const [typed, setTyped, sent] = useDraft(prefix)
  const [writing, setWriting] = useState(false)
  const readOnly = useReadOnly()
  useEffect(() => {
    if (typed === prefix) return
    const timer = setTimeout(() => {
      sent(typed)
      view({ prefix: typed })
    }, 150)
    return () => clearTimeout(timer)
  }, [typed])
  const q = useRead(route, { namespace: ns, prefix, limit: pageSize }, 10_000, { keep: true })
  const page = useMemo(() => q.data && pageOf(q.data), [q.data])
  const pages = usePages(ns, prefix, q.isPlaceholderData ? undefined : page)
  const keys = q.isPlaceholderData ? (page?.keys ?? []) : pages.keys
  const rows = useMemo(() => grouped(keys, prefix, separator), [keys, prefix, separator])
  useKeys(readOnly ? {} : { n: () => setWriting(true) })
  const keep = { prefix, group: separator }
  const columns: Column<Row>[] = [
    {
      key: 'key',
      title: words.key,
      width: 'minmax(140px, 2fr)',
      cell: r => (
        <span class="mono">
          {r.key}
          {r.item ? '' : '…'}
        </span>
      ),
      sort: r => r.key,
    },
    {
      key: 'preview',
      title: words.value,
      width: 'minmax(120px, 3fr)',
      spare: 1,
      cell: r => <span class="mono dim">{r.item?.preview ?? ''}</span>,
    },
    {
      key: 'ttl',
      title: say.ttl,
      width: '70px',
      num: true,
      spare: 2,
      cell: r => r.item && <Left until={r.item.until} />,
      sort: r => r.item?.until ?? Infinity,
      hint: say.ttlHint,
    },
    {
      key: 'age',
      title: say.age,
      width: '80px',
      num: true,
      spare: 3,
      cell: r => r.item && <Ago at={r.item.updated_at} />,
      sort: r => -(r.item?.updated_at ?? 0),
      hint: say.ageHint,
    },
    {
      key: 'size',
      title: words.size,
      width: '80px',
      num: true,
      cell: r => (r.item ? bytes(r.item.size) : strings.many.keys(r.grouped)),
      sort: r => r.item?.size ?? 0,
    },
    {
      key: 'lsn',
      title: 'LSN',
      width: '90px',
      num: true,
      spare: 4,
      cell: r => (r.item ? count(r.item.version) : ''),
      sort: r => r.item?.version ?? 0,
      hint: say.lsnHint,
    },
  ]
  const example = (
    <Snippet
      command={floe(['kv', 'set'], inNamespace(ns), ['greeting', 'hello'])}
      call={curl('PUT', `/kv/namespaces/${encodeURIComponent(ns)}/keys/greeting`, {}, '{"value":"hello"}')}
    />
  )
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.kv}</h1>
        <FilterBox value={typed} change={setTyped} placeholder={say.filter} mono />
        <label class="row">
          <span class="dim">{say.groupBy}</span>
          <select class="select" value={separator} onChange={e => view({ group: e.currentTarget.value })}>
            <option value="">{words.nothing}</option>
            <option value="/">/</option>
            <option value=":">:</option>
            <option value=".">.</option>
            <option value="-">-</option>
          </select>
        </label>
        {q.data && <Count shown={keys.length} all={keys.length} what={strings.many.keys} more={pages.hasMore} />}
        {separator && <span class="dim">{say.groupsHint}</span>}
        <button class="btn primary push" disabled={readOnly !== ''} title={readOnly || 'n'} onClick={() => setWriting(true)}>
          {say.newKey}
        </button>
      </div>
      <div class="split">
        <Panel fill flush label={words.keys}>
          <Query
            q={q}
            missing={<Empty title={strings.noNamespace(ns)}>{example}</Empty>}
            empty={d => d.keys.length === 0}
            whenEmpty={
              prefix ? (
                <NoMatch filter={prefix} clear={() => view({ prefix: '' })} />
              ) : (
                <NoneIn ns={ns} title={say.empty(ns)}>
                  {example}
                </NoneIn>
              )
            }
          >
            {() => (
              <>
                <VirtualRows
                  label={words.keys}
                  rows={rows}
                  columns={columns}
                  keyOf={r => r.key}
                  selected={open}
                  sortable
                  href={r => (r.item ? link('kv', [r.key], keep) : link('kv', [], { prefix: r.key, group: separator }))}
                  open={r => go(r.item ? link('kv', [r.key], keep) : link('kv', [], { prefix: r.key, group: separator }))}
                  atEnd={() => void pages.load()}
                />
                {pages.problem && <div class="note crit">{pages.problem.message}</div>}
                {pages.hasMore && keys.length >= mostLoaded && <div class="note">{say.mostLoaded(keys.length)}</div>}
              </>
            )}
          </Query>
        </Panel>
        {open !== undefined && <KeyInspector key={ns + '\n' + open} ns={ns} name={open} close={() => go(link('kv', [], keep))} />}
      </div>
      {writing && <WriteKey ns={ns} prefix={prefix} close={() => setWriting(false)} />}
    </div>
  )
}
