import { useMemo, useState } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Routes } from '../../api/routes'
import { count } from '../../lib/format'
import { useKeys } from '../../lib/keys'
import { rateOf, useMeters } from '../../lib/meters'
import { go, link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { FilterBox } from '../../ui/Field'
import { NoneIn } from '../../ui/NoneIn'
import { NoMatch, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Count, VirtualRows, type Column } from '../../ui/VirtualRows'
import { Enqueue } from './Enqueue'
import { QueueDetail } from './QueueDetail'
import { Composition } from './Composition'
import { strings } from '../../strings'
import { queues as say } from '../../strings/queues'

const words = strings.words

export type Queue = Routes['GET /api/v1/queues'][number]

export default function Queues() {
  const { id } = useRoute()
  return id[0] === undefined ? <List /> : <QueueDetail key={id[0]} name={id[0]} />
}

function List() {
  const { ns, query } = useRoute()
  const q = useRead('GET /api/v1/queues', { namespace: ns }, 2000, { rates: true })
  const readOnly = useReadOnly()
  const [adding, setAdding] = useState(false)
  const filter = query['filter'] ?? ''
  const all = q.data?.data ?? []
  const rows = useMemo(() => all.filter(r => r.name.includes(filter)), [all, filter])
  const enqueued = useMeters(
    `queue enqueued ${ns}`,
    all,
    q.data?.at,
    r => r.name,
    r => r.enqueued,
  )
  const dequeued = useMeters(
    `queue dequeued ${ns}`,
    all,
    q.data?.at,
    r => r.name,
    r => r.dequeued,
  )
  useKeys(readOnly ? {} : { n: () => setAdding(true) })
  const columns: Column<Queue>[] = [
    { key: 'name', title: words.queue, width: 'minmax(110px, 2fr)', cell: r => r.name, sort: r => r.name },
    { key: 'mix', title: say.whatItHolds, width: 'minmax(120px, 1fr)', spare: 3, cell: r => <Composition queue={r} /> },
    { key: 'ready', title: words.ready, width: '76px', num: true, dot: 'mix-ready', cell: r => count(r.available), sort: r => r.available },
    {
      key: 'delayed',
      title: words.delayed,
      width: '76px',
      num: true,
      spare: 1,
      dot: 'mix-delayed',
      cell: r => count(r.ready - r.available),
      sort: r => r.ready - r.available,
      hint: say.delayedHint,
    },
    { key: 'inflight', title: say.inFlight, width: '76px', num: true, spare: 2, dot: 'mix-leased', cell: r => count(r.inflight), sort: r => r.inflight },
    {
      key: 'dead',
      title: words.dead,
      width: '60px',
      num: true,
      dot: 'mix-dead',
      cell: r => <span class={r.dlq_count > 0 ? 'crit' : ''}>{count(r.dlq_count)}</span>,
      sort: r => r.dlq_count,
    },
    { key: 'in', title: words.inRate, width: '60px', num: true, spare: 4, cell: r => rateOf(enqueued(r.name)), sort: r => enqueued(r.name) ?? -1 },
    { key: 'out', title: say.outRate, width: '60px', num: true, spare: 5, cell: r => rateOf(dequeued(r.name)), sort: r => dequeued(r.name) ?? -1 },
    { key: 'enqueued', title: words.enqueued, width: '90px', num: true, spare: 7, cell: r => count(r.enqueued), sort: r => r.enqueued },
    { key: 'dequeued', title: words.delivered, width: '90px', num: true, spare: 6, cell: r => count(r.dequeued), sort: r => r.dequeued },
  ]
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.queues}</h1>
        <FilterBox value={filter} change={v => view({ filter: v })} placeholder={words.filterByName} />
        {q.data && <Count shown={rows.length} all={all.length} what={strings.many.queues} more={q.data.next !== ''} />}
        <button class="btn primary push" disabled={readOnly !== ''} title={readOnly || 'n'} onClick={() => setAdding(true)}>
          {words.enqueue}
        </button>
      </div>
      <Panel fill flush label={words.queues}>
        <Query
          q={q}
          empty={d => d.length === 0}
          whenEmpty={
            <NoneIn ns={ns} title={say.empty(ns)}>
              <Snippet
                command={floe(['queue', 'enqueue'], inNamespace(ns), ['tasks', '{"id":1}'])}
                call={curl('POST', '/queues/tasks', { namespace: ns }, '{"id":1}')}
              />
            </NoneIn>
          }
        >
          {() =>
            rows.length === 0 ? (
              <NoMatch filter={filter} clear={() => view({ filter: '' })} />
            ) : (
              <VirtualRows label={words.queues} rows={rows} columns={columns} keyOf={r => r.name} sortable href={r => link('queues', [r.name])} />
            )
          }
        </Query>
      </Panel>
      {adding && <Enqueue ns={ns} close={() => setAdding(false)} opened={name => go(link('queues', [name]))} />}
    </div>
  )
}
