import { useMemo } from 'preact/hooks'
import { serverNow } from '../../api/client'
import { useRead } from '../../api/hooks'
import type { Routes } from '../../api/routes'
import { count } from '../../lib/format'
import { go, link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { FilterBox } from '../../ui/Field'
import { Inspector } from '../../ui/Inspector'
import { NoneIn } from '../../ui/NoneIn'
import { Empty, NoMatch, Panel, Query, useNow } from '../../ui/Panel'
import { Payload } from '../../ui/Payload'
import { Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Filled, Table } from '../../ui/Table'
import { Ago, Moment } from '../../ui/Time'
import { Count, VirtualRows, type Column } from '../../ui/VirtualRows'
import { strings } from '../../strings'
import { workers as say } from '../../strings/workers'

const words = strings.words

export type Worker = Routes['GET /api/v1/workers'][number]

const amber = 30_000
const red = 90_000

/** Time since the last heartbeat of a worker, with a warning if it is long. */
export function Heartbeat({ at }: { at: number }) {
  useNow()
  const age = serverNow() - at
  return (
    <span class={age > red ? 'crit' : age > amber ? 'warn' : ''}>
      <Ago at={at} />
    </span>
  )
}

export function Load({ now, most }: { now: number; most: number }) {
  return <Filled part={most > 0 ? now / most : 0}>{strings.ofAll(count(now), most > 0 ? count(most) : '–')}</Filled>
}

export const workerColumns: Column<Worker>[] = [
  {
    key: 'id',
    title: words.worker,
    width: 'minmax(140px, 2fr)',
    cell: w => (
      <span class="mono" title={w.worker_id}>
        {w.worker_id}
      </span>
    ),
    sort: w => w.worker_id,
  },
  { key: 'type', title: words.type, width: '60px', spare: 1, cell: w => w.worker_type, sort: w => w.worker_type },
  { key: 'status', title: words.status, width: '96px', cell: w => <State state={w.status} />, sort: w => w.status },
  {
    key: 'load',
    title: words.load,
    width: 'minmax(110px, 1fr)',
    spare: 4,
    cell: w => <Load now={w.current_load} most={w.max_concurrent} />,
    sort: w => w.current_load / Math.max(1, w.max_concurrent),
  },
  { key: 'done', title: words.completed, width: '80px', num: true, spare: 2, cell: w => count(w.tasks_completed), sort: w => w.tasks_completed },
  {
    key: 'failed',
    title: words.failed,
    width: '50px',
    spare: 3,
    num: true,
    cell: w => <span class={w.tasks_failed > 0 ? 'crit' : ''}>{count(w.tasks_failed)}</span>,
    sort: w => w.tasks_failed,
  },
  { key: 'seen', title: words.heartbeat, width: '76px', num: true, cell: w => <Heartbeat at={w.last_seen} />, sort: w => -w.last_seen },
]

export default function Workers() {
  const { ns, id, query } = useRoute()
  const q = useRead('GET /api/v1/workers', { namespace: ns }, 3000, { raw: ['*.metadata'] })
  const filter = query['filter'] ?? ''
  const type = query['type'] ?? ''
  const status = query['status'] ?? ''
  const keep = { filter, type, status, sort: query['sort'] ?? '' }
  const all = q.data?.data ?? []
  const rows = useMemo(
    () =>
      all.filter(
        w => (!filter || w.worker_id.toLowerCase().includes(filter.toLowerCase())) && (!type || w.worker_type === type) && (!status || w.status === status),
      ),
    [all, filter, type, status],
  )
  const choices = (pick: (w: Worker) => string) => [...new Set(all.map(pick))].sort()
  const open = id[0]
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.workers}</h1>
        <FilterBox value={filter} change={v => view({ filter: v })} placeholder={say.filter} />
        <Choice label={words.type} value={type} options={choices(w => w.worker_type)} change={v => view({ type: v })} />
        <Choice label={words.status} value={status} options={choices(w => w.status)} change={v => view({ status: v })} />
        {q.data && <Count shown={rows.length} all={all.length} what={strings.many.workers} />}
      </div>
      <div class="split">
        <Panel fill flush label={words.workers}>
          <Query
            q={q}
            empty={d => d.length === 0}
            whenEmpty={
              <NoneIn ns={ns} title={say.empty(ns)}>
                <Snippet command={floe(['worker', 'await'], { ...inNamespace(ns), 'worker-id': 'worker-1' }, ['ACTION'])} />
              </NoneIn>
            }
          >
            {() =>
              rows.length === 0 ? (
                <NoMatch filter={[filter, type, status].filter(Boolean).join(', ')} clear={() => view({ filter: '', type: '', status: '' })} />
              ) : (
                <VirtualRows
                  label={words.workers}
                  rows={rows}
                  columns={workerColumns}
                  keyOf={w => w.worker_id}
                  selected={open}
                  sortable
                  href={w => link('workers', [w.worker_id], keep)}
                  open={w => go(link('workers', [w.worker_id], keep))}
                />
              )
            }
          </Query>
        </Panel>
        {open !== undefined && <WorkerInspector key={open} ns={ns} id={open} close={() => go(link('workers', [], keep))} />}
      </div>
    </div>
  )
}

export function Choice({ label, value, options, change }: { label: string; value: string; options: readonly string[]; change: (v: string) => void }) {
  const all = value && !options.includes(value) ? [value, ...options] : options
  return (
    <label class="row">
      <span class="dim">{label}</span>
      <select class="select" value={value} onChange={e => change(e.currentTarget.value)}>
        <option value="">{words.any}</option>
        {all.map(o => (
          <option key={o} value={o}>
            {o.replaceAll('_', ' ')}
          </option>
        ))}
      </select>
    </label>
  )
}

function WorkerInspector({ ns, id, close }: { ns: string; id: string; close: () => void }) {
  const q = useRead('GET /api/v1/workers/:id', { id, namespace: ns }, 3000, { raw: ['metadata'] })
  return (
    <Inspector title={id} close={close}>
      <Query q={q} missing={<Empty title={say.missing} />}>
        {w => (
          <>
            <dl class="facts">
              <dt>{words.status}</dt>
              <dd>
                <State state={w.status} />
              </dd>
              <dt>{words.type}</dt>
              <dd>{w.worker_type}</dd>
              <dt>{words.machine}</dt>
              <dd class="mono">{w.machine_id ?? '–'}</dd>
              <dt>{words.load}</dt>
              <dd>
                <Load now={w.current_load} most={w.max_concurrent} />
              </dd>
              <dt>{words.completed}</dt>
              <dd>{count(w.tasks_completed)}</dd>
              <dt>{words.failed}</dt>
              <dd class={w.tasks_failed > 0 ? 'crit' : ''}>{count(w.tasks_failed)}</dd>
              <dt>{words.heartbeat}</dt>
              <dd>
                <Moment at={w.last_seen} />
              </dd>
              <dt>{words.registered}</dt>
              <dd>
                <Moment at={w.registered_at} />
              </dd>
            </dl>
            <h3>{words.processes}</h3>
            {w.processes.length === 0 ? (
              <p class="dim">{say.noProcesses}</p>
            ) : (
              <Table label={words.processes} heads={[words.name, words.kind, `#${words.runs}`, `#${words.failed}`, `#${words.last}`]} boxed>
                {w.processes.map(p => (
                  <tr key={p.kind + p.name}>
                    <td>
                      <a href={processLink(p.kind, p.name)}>{p.name}</a>
                    </td>
                    <td>{p.kind}</td>
                    <td class="num">{count(p.run_count)}</td>
                    <td class={p.fail_count > 0 ? 'num crit' : 'num'}>{count(p.fail_count)}</td>
                    <td class="num nowrap">
                      <Ago at={p.last_run_at} />
                    </td>
                  </tr>
                ))}
              </Table>
            )}
            {w.metadata && (
              <>
                <h3>{words.metadata}</h3>
                <Payload text={w.metadata.text} label={say.theMetadata} />
              </>
            )}
            <Snippet command={floe(['worker', 'list'], inNamespace(ns))} call={curl('GET', `/workers/${encodeURIComponent(id)}`, { namespace: ns })} />
          </>
        )}
      </Query>
    </Inspector>
  )
}

function processLink(kind: string, name: string): string {
  if (kind === 'action') return link('actions', [name])
  if (kind === 'queue') return link('queues', [name])
  const [stream = name, group] = name.split('/')
  return link('streams', [stream], group ? { tab: 'groups', group } : {})
}
