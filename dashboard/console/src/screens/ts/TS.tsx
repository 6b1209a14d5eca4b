import { useMemo, useState } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Routes } from '../../api/routes'
import { count } from '../../lib/format'
import { useKeys } from '../../lib/keys'
import { link, useRoute, view } from '../../lib/router'
import { floe, inNamespace } from '../../lib/snippets'
import { FilterBox } from '../../ui/Field'
import { NoneIn } from '../../ui/NoneIn'
import { NoMatch, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Count, VirtualRows, type Column } from '../../ui/VirtualRows'
import { Ingest } from './Ingest'
import { Measurement } from './Measurement'
import { TSTabs } from './Tabs'
import { strings } from '../../strings'
import { ts as say } from '../../strings/ts'

const words = strings.words

type Summary = Routes['GET /api/v1/timeseries'][number]

export default function TS() {
  const { id } = useRoute()
  return id[0] === undefined ? <List /> : <Measurement key={id[0]} name={id[0]} />
}

function List() {
  const { ns, query } = useRoute()
  const q = useRead('GET /api/v1/timeseries', { namespace: ns }, 10_000)
  const readOnly = useReadOnly()
  const [writing, setWriting] = useState(false)
  const filter = query['filter'] ?? ''
  const all = q.data?.data ?? []
  const rows = useMemo(() => all.filter(m => m.name.includes(filter)), [all, filter])
  useKeys(readOnly ? {} : { n: () => setWriting(true) })
  const columns: Column<Summary>[] = [
    { key: 'name', title: words.measurement, width: 'minmax(120px, 1fr)', cell: m => m.name, sort: m => m.name },
    { key: 'series', title: words.series, width: '60px', num: true, cell: m => count(m.series_count), sort: m => m.series_count },
    { key: 'fields', title: words.fields, width: '60px', num: true, spare: 1, cell: m => count(m.field_count), sort: m => m.field_count },
    { key: 'points', title: words.points, width: '90px', num: true, cell: m => count(m.points), sort: m => m.points },
  ]
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.timeSeries}</h1>
        <TSTabs value="ts" />
        <FilterBox value={filter} change={v => view({ filter: v })} placeholder={words.filterByName} />
        {q.data && <Count shown={rows.length} all={all.length} what={strings.many.measurements} />}
        <button class="btn primary push" disabled={readOnly !== ''} title={readOnly || 'n'} onClick={() => setWriting(true)}>
          {say.writePoints}
        </button>
      </div>
      <Panel fill flush label={words.measurements}>
        <Query
          q={q}
          empty={d => d.length === 0}
          whenEmpty={
            <NoneIn ns={ns} title={say.empty(ns)}>
              <Snippet command={floe(['ts', 'write'], { ...inNamespace(ns), tags: 'host=web-01', value: '12.5' }, ['cpu'])} />
            </NoneIn>
          }
        >
          {() =>
            rows.length === 0 ? (
              <NoMatch filter={filter} clear={() => view({ filter: '' })} />
            ) : (
              <VirtualRows label={words.measurements} rows={rows} columns={columns} keyOf={m => m.name} sortable href={m => link('ts', [m.name])} />
            )
          }
        </Query>
      </Panel>
      {writing && <Ingest ns={ns} close={() => setWriting(false)} />}
    </div>
  )
}
