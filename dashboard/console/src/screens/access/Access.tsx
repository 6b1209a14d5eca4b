import { useMemo } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import { authEnabled } from '../../api/session'
import type { Routes } from '../../api/routes'
import { count, dateTime } from '../../lib/format'
import { parseRaw } from '../../lib/json'
import { useZone } from '../../lib/prefs'
import { useRoute, view } from '../../lib/router'
import { useStore } from '../../lib/store'
import { curl, floe } from '../../lib/snippets'
import { strings } from '../../strings'
import { access as say } from '../../strings/access'
import { ByCommand } from '../../ui/ByCommand'
import { Tabs } from '../../ui/Field'
import { Empty, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Ago, Moment } from '../../ui/Time'
import { VirtualRows, type Column } from '../../ui/VirtualRows'

const words = strings.words

type Key = Routes['GET /api/v1/console/keys'][number]
type Tab = 'keys' | 'audit' | 'audit-keys'

/** The API keys, and what was done with them: for administrators, to look at. */
export default function Access() {
  const { query } = useRoute()
  const asks = useStore(authEnabled)
  const tab = (['audit', 'audit-keys'].includes(query['tab'] ?? '') ? query['tab'] : 'keys') as Tab
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.access}</h1>
        <Tabs
          label={words.parts}
          value={tab}
          options={
            [
              ['keys', say.keys],
              ['audit', say.audit],
              ['audit-keys', say.keyChanges],
            ] as const
          }
          change={t => view({ tab: t === 'keys' ? '' : t })}
        />
      </div>
      {!asks ? (
        <Empty title={say.noKeys}>
          <Snippet command="floe server bootstrap" call={curl('GET', '/console/keys')} />
        </Empty>
      ) : tab === 'keys' ? (
        <Keys />
      ) : (
        <Audit key={tab} stream={tab} />
      )}
    </div>
  )
}

function Keys() {
  const q = useRead('GET /api/v1/console/keys', { limit: 1000 }, 15_000)
  const columns: Column<Key>[] = [
    { key: 'id', title: words.key, width: '150px', cell: k => <span class="mono">{k.id}</span> },
    { key: 'name', title: words.name, width: 'minmax(90px, 1fr)', cell: k => k.name, sort: k => k.name },
    { key: 'role', title: words.role, width: '70px', cell: k => k.role, sort: k => k.role },
    {
      key: 'namespaces',
      title: words.namespaces,
      width: 'minmax(90px, 2fr)',
      spare: 1,
      cell: k => k.namespaces?.join(', ') ?? <span class="dim">{say.all}</span>,
    },
    { key: 'created', title: say.created, width: '80px', num: true, spare: 3, cell: k => <Ago at={k.created_at} />, sort: k => k.created_at },
    { key: 'used', title: say.lastUsed, width: '80px', num: true, spare: 2, cell: k => (k.last_used_at ? <Ago at={k.last_used_at} /> : words.never) },
    { key: 'expires', title: words.expires, width: '150px', num: true, spare: 4, cell: k => (k.expires_at ? <Moment at={k.expires_at} /> : words.never) },
  ]
  return (
    <>
      <Panel fill flush label={say.keys}>
        <Query q={q}>{all => <VirtualRows label={say.keys} rows={all} columns={columns} keyOf={k => k.id} sortable />}</Query>
      </Panel>
      <ByCommand what={say.createByCommand} commands={[floe(['key', 'create'], { role: 'read' }), floe(['key', 'revoke'], {}, ['ID'])]} />
    </>
  )
}

/** An entry as the node writes it, see floe.AuditEntry. */
interface Entry {
  id: string
  at: number
  key: string
  name: string
  role: string
  from: string
  action: string
  namespace: string
  result: string
  count?: number
  until?: number
}

const most = 1000

function Audit({ stream }: { stream: string }) {
  const zone = useZone()
  const args = { name: stream, namespace: '_system', tail: true, limit: most }
  const q = useRead('GET /api/v1/streams/:name/messages', args, 5000)
  const rows = useMemo(
    () => (q.data?.data ?? []).map(m => ({ ...(parseRaw(m.payload) as Omit<Entry, 'id'>), id: `${m.id_ms}-${m.id_seq}` })).reverse(),
    [q.data],
  )
  const columns: Column<Entry>[] = [
    { key: 'at', title: words.time, width: '170px', cell: e => dateTime(e.at, zone) },
    {
      key: 'key',
      title: words.key,
      width: 'minmax(90px, 1fr)',
      cell: e => <span title={e.key}>{e.name || e.key || <span class="dim">{say.noKey}</span>}</span>,
    },
    { key: 'role', title: words.role, width: '60px', spare: 3, cell: e => e.role },
    { key: 'from', title: say.from, width: '110px', spare: 4, cell: e => <span class="mono">{e.from}</span> },
    { key: 'action', title: words.action, width: 'minmax(150px, 3fr)', cell: e => <span title={e.action}>{e.action}</span> },
    { key: 'namespace', title: words.namespace, width: 'minmax(70px, 1fr)', spare: 2, cell: e => e.namespace },
    {
      key: 'count',
      title: words.count,
      width: '60px',
      num: true,
      spare: 5,
      cell: e => (e.count ? <span title={say.aggregated(count(e.count), dateTime(e.until ?? e.at, zone))}>{count(e.count)}</span> : '1'),
    },
    {
      key: 'result',
      title: words.result,
      width: 'minmax(80px, 2fr)',
      spare: 1,
      cell: e => (
        <span class={e.result === 'ok' ? 'dim' : 'crit'} title={e.result}>
          {e.result}
        </span>
      ),
    },
  ]
  return (
    <Panel fill flush label={say.entries} tools={<span class="dim">{q.data ? say.latest(count(rows.length)) : ''}</span>}>
      <Query q={q} missing={<Empty title={say.noEntries} />} empty={all => all.length === 0} whenEmpty={<Empty title={say.noEntries} />}>
        {() => <VirtualRows label={say.entries} rows={rows} columns={columns} keyOf={e => e.id} />}
      </Query>
    </Panel>
  )
}
