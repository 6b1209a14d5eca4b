import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { workflows as say } from '../../strings/workflows'
import { Field } from '../../ui/Field'
import { FormDialog } from '../../ui/FormDialog'
import { Sentence } from '../../ui/Sentence'
import { toast } from '../../ui/toasts'

/** Continues a failed run, at the failed step or at another one. */
export function Retry({ ns, run, workflow, steps, close }: { ns: string; run: string; workflow: string; steps: readonly string[]; close: () => void }) {
  const [step, setStep] = useState('')
  const write = useWrite('POST /api/v1/workflow/runs/:id/retry', ['/workflow'], data => {
    toast('ok', say.isRetried(data.run_id, data.status))
    close()
  })
  const body = JSON.stringify(step ? { step } : {})
  return (
    <FormDialog
      title={say.askRetry(run)}
      action={say.retryRun}
      write={write}
      close={close}
      act={() => write.mutate({ args: { id: run, namespace: ns }, body })}
      command={floe(['workflow', 'retry'], { ...inNamespace(ns), 'from-step': step }, [run])}
      call={curl('POST', `/workflow/runs/${encodeURIComponent(run)}/retry`, { namespace: ns }, body)}
    >
      <Field label={say.fromStep}>
        <select class="select" value={step} onChange={e => setStep(e.currentTarget.value)}>
          <option value="">{say.failedStep}</option>
          {steps.map(s => (
            <option key={s} value={s}>
              {s === '_start' ? strings.words.startStep : s}
            </option>
          ))}
        </select>
      </Field>
      <p>
        <Sentence of={say.willRetry} put={{ run: <code>{run}</code>, workflow: <code>{workflow}</code>, ns: <code>{ns}</code> }} />
      </p>
    </FormDialog>
  )
}
