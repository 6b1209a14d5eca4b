import { useEffect, useMemo, useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { processing as say } from '../../strings/processing'
import { Dialog } from '../../ui/Dialog'
import { Editor, Graph } from '../../ui/Lazy'
import { Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { toast } from '../../ui/toasts'
import { useGraph } from '../workflows/Definition'

const words = strings.words

const example = `kind: Processing
name: large-orders
sources:
  - name: orders
    stream: { name: orders, partitions: all, start: earliest }
operators:
  - name: only-large
    type: filter
    condition: "json:$.cents>10000"
sinks:
  - name: out
    stream: { name: large-orders }
`

/** Submits a pipeline, which the node reads and draws while it is typed. */
export function Submit({ ns, close, opened }: { ns: string; close: () => void; opened: (job: string) => void }) {
  const [yaml, setYAML] = useState(example)
  const [settled, setSettled] = useState(example)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(yaml), 400)
    return () => clearTimeout(timer)
  }, [yaml])
  const graph = useGraph('processing', settled)
  const problems = graph.data?.data.problems ?? []
  const marks = useMemo(
    () =>
      settled === yaml
        ? problems.map(p => ({ line: p.line, severity: p.severity === 'warning' ? ('warning' as const) : ('error' as const), message: p.message }))
        : [],
    [graph.data, settled, yaml],
  )
  const bad = problems.filter(p => p.severity !== 'warning').length
  const write = useWrite('POST /api/v1/processing/jobs', ['/processing'], data => {
    toast('ok', say.jobIs(data.job_id, data.status.toLowerCase()))
    close()
    opened(data.job_id)
  })
  const submit = () => {
    if (!write.isPending) write.mutate({ args: { namespace: ns }, body: yaml })
  }
  return (
    <Dialog
      title={say.submitTitle(ns)}
      close={close}
      submit={submit}
      wide
      footer={
        <>
          <span class={bad > 0 ? 'crit' : 'dim'} role="status">
            {settled !== yaml ? '' : bad > 0 ? say.mistakes(bad) : say.noMistakes}
          </span>
          <button type="button" class="btn push" onClick={close}>
            {strings.cancel}
          </button>
          <button class="btn primary" disabled={write.isPending || (settled === yaml && bad > 0)}>
            {words.submit}
          </button>
        </>
      }
    >
      <Editor value={yaml} change={setYAML} language="yaml" label={words.pipeline} submit={submit} marks={marks} />
      {problems.length > 0 && settled === yaml && (
        <ul>
          {problems.map((p, i) => (
            <li key={i} class={p.severity === 'warning' ? 'warn' : 'crit'}>
              {say.problem(p.line, p.message)}
            </li>
          ))}
        </ul>
      )}
      <Query q={graph}>{v => (v.graph.nodes.length > 0 ? <Graph label={say.thePipeline} nodes={v.graph.nodes} edges={v.graph.edges} /> : null)}</Query>
      {write.error && (
        <p class="crit" role="alert">
          {write.error.message}
        </p>
      )}
      <Snippet
        command={floe(['processing', 'submit'], { ...inNamespace(ns), f: 'pipeline.yaml' })}
        call={curl('POST', '/processing/jobs', { namespace: ns }, yaml)}
      />
    </Dialog>
  )
}
