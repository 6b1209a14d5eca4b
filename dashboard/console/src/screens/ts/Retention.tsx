import { useState } from 'preact/hooks'
import { useRead, useWrite } from '../../api/hooks'
import type { Routes } from '../../api/routes'
import { durationText, parseDuration } from '../../lib/quantities'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { ts as say } from '../../strings/ts'
import { Field } from '../../ui/Field'
import { FormDialog } from '../../ui/FormDialog'
import { Sentence } from '../../ui/Sentence'
import { toast } from '../../ui/toasts'

interface Props {
  ns: string
  measurement: string
  close: () => void
}

/** Changes how long raw points of a measurement are kept; its rollups stay. */
export function Retention(p: Props) {
  const now = useRead('GET /api/v1/timeseries/:measurement/retention', { measurement: p.measurement, namespace: p.ns }, 0)
  return now.data ? <Form {...p} now={now.data.data} /> : null
}

function Form({ ns, measurement, now, close }: Props & { now: Routes['GET /api/v1/timeseries/:measurement/retention'] }) {
  const [text, setText] = useState(durationText(now.raw_ttl_ms))
  const ttl = parseDuration(text)
  const write = useWrite('PUT /api/v1/timeseries/:measurement/retention', ['/timeseries'], () => {
    toast('ok', say.isRetained(measurement))
    close()
  })
  const body = JSON.stringify({ raw_ttl_ms: ttl, downsample: now.downsample })
  return (
    <FormDialog
      title={say.retentionOf(measurement)}
      action={strings.words.save}
      wrong={ttl === null}
      write={write}
      close={close}
      act={() => write.mutate({ args: { measurement, namespace: ns }, body })}
      command={floe(['ts', 'retention'], { ...inNamespace(ns), 'raw-ttl': ttl === null ? undefined : durationText(ttl) }, [measurement])}
      call={curl('PUT', `/timeseries/${encodeURIComponent(measurement)}/retention`, { namespace: ns }, body)}
    >
      <Field label={say.rawTTL} hint={say.noLimit} problem={ttl === null ? strings.badDuration : undefined}>
        <input class="input" value={text} spellcheck={false} onInput={e => setText(e.currentTarget.value)} />
      </Field>
      <p>
        <Sentence of={say.willRetain} put={{ measurement: <code>{measurement}</code>, ns: <code>{ns}</code> }} />
      </p>
    </FormDialog>
  )
}
