import { useMemo, useState } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Routes } from '../../api/routes'
import { count, kept } from '../../lib/format'
import { useKeys } from '../../lib/keys'
import { rateOf, useMeters } from '../../lib/meters'
import { link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { FilterBox } from '../../ui/Field'
import { NoneIn } from '../../ui/NoneIn'
import { NoMatch, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Count, VirtualRows, type Column } from '../../ui/VirtualRows'
import { Create } from './Create'
import { StreamDetail } from './StreamDetail'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'

const words = strings.words

type Stream = Routes['GET /api/v1/streams'][number]

export default function Streams() {
  const { id } = useRoute()
  return id[0] === undefined ? <List /> : <StreamDetail key={id[0]} name={id[0]} />
}

function List() {
  const { ns, query } = useRoute()
  const q = useRead('GET /api/v1/streams', { namespace: ns }, 5000, { rates: true })
  const readOnly = useReadOnly()
  const [creating, setCreating] = useState(false)
  useKeys(readOnly ? {} : { n: () => setCreating(true) })
  const filter = query['filter'] ?? ''
  const all = q.data?.data ?? []
  const rows = useMemo(() => all.filter(s => s.name.includes(filter)), [all, filter])
  const ingest = useMeters(
    `stream ingest ${ns}`,
    all,
    q.data?.at,
    s => s.name,
    s => s.ingest_rate,
  )
  const reads = useMeters(
    `stream reads ${ns}`,
    all,
    q.data?.at,
    s => s.name,
    s => s.reads,
  )
  const columns: Column<Stream>[] = [
    { key: 'name', title: words.stream, width: 'minmax(120px, 2fr)', cell: s => s.name, sort: s => s.name },
    { key: 'partitions', title: words.partitions, width: '80px', num: true, spare: 1, cell: s => count(s.partitions), sort: s => s.partitions },
    { key: 'in', title: words.inRate, width: '80px', num: true, cell: s => rateOf(ingest(s.name)), sort: s => ingest(s.name) ?? -1 },
    { key: 'out', title: say.readRate, width: '80px', num: true, cell: s => rateOf(reads(s.name)), sort: s => reads(s.name) ?? -1 },
    { key: 'appended', title: say.everAppended, width: '100px', num: true, spare: 2, cell: s => count(s.ingest_rate), sort: s => s.ingest_rate },
    {
      key: 'reads',
      title: words.read,
      width: '100px',
      num: true,
      spare: 3,
      cell: s => count(s.reads),
      sort: s => s.reads,
      hint: say.readHint,
    },
    { key: 'retention', title: words.retention, width: 'minmax(130px, 1fr)', spare: 4, cell: s => kept(s.retention) },
  ]
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.streams}</h1>
        <FilterBox value={filter} change={v => view({ filter: v })} placeholder={words.filterByName} />
        {q.data && <Count shown={rows.length} all={all.length} what={strings.many.streams} more={q.data.next !== ''} />}
        <button class="btn primary push" disabled={readOnly !== ''} title={readOnly || 'n'} onClick={() => setCreating(true)}>
          {say.newStream}
        </button>
      </div>
      <Panel fill flush label={words.streams}>
        <Query
          q={q}
          empty={d => d.length === 0}
          whenEmpty={
            <NoneIn ns={ns} title={say.empty(ns)}>
              <Snippet
                command={floe(['stream', 'append'], inNamespace(ns), ['events', '{"type":"hello"}'])}
                call={curl('GET', '/streams', { namespace: ns })}
              />
            </NoneIn>
          }
        >
          {() =>
            rows.length === 0 ? (
              <NoMatch filter={filter} clear={() => view({ filter: '' })} />
            ) : (
              <VirtualRows label={words.streams} rows={rows} columns={columns} keyOf={s => s.name} sortable href={s => link('streams', [s.name])} />
            )
          }
        </Query>
      </Panel>
      {creating && <Create ns={ns} taken={all.map(s => s.name)} close={() => setCreating(false)} />}
    </div>
  )
}
