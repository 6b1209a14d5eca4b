import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import type { QueueState } from '../../api/routes'
import { durationText, parseCount, parseDuration, parseSize, sizeText } from '../../lib/quantities'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { queues as say } from '../../strings/queues'
import { Field } from '../../ui/Field'
import { FormDialog } from '../../ui/FormDialog'
import { toast } from '../../ui/toasts'

const words = strings.words

/** The settings, as a form has them: name, flag of the command, label and hint, how they are written and read. */
const settings = [
  ['max_len', 'max-len', say.maxLen, say.noLimit, String, parseCount, strings.badCount],
  ['max_bytes', 'max-bytes', say.maxBytes, say.noLimit, sizeText, parseSize, strings.badSize],
  ['max_attempts', 'max-attempts', say.maxAttempts, say.thenDead, String, parseCount, strings.badCount],
  ['backoff_min_ms', 'backoff-min', say.backoffMin, say.doubled, durationText, parseDuration, strings.badDuration],
  ['backoff_max_ms', 'backoff-max', say.backoffMax, '', durationText, parseDuration, strings.badDuration],
  ['dead_retention_ms', 'dead-retention', say.deadRetention, say.noLimit, durationText, parseDuration, strings.badDuration],
  ['dedup_window_ms', 'dedup-window', say.dedupWindow, '', durationText, parseDuration, strings.badDuration],
] as const

type Name = (typeof settings)[number][0]

/** The backoff_min_ms of no delay: 0 is the default one. */
const noBackoff = -1

/** Changes the settings of a queue: all of them, as the node takes them. */
export function Settings({ ns, queue, state, close }: { ns: string; queue: string; state: QueueState; close: () => void }) {
  const [texts, setTexts] = useState<Record<Name, string>>(
    () => Object.fromEntries(settings.map(([name, , , , text]) => [name, text(state[name])])) as Record<Name, string>,
  )
  const values = settings.map(([name, , , , , parse]) => parse(texts[name]))
  const write = useWrite('PUT /api/v1/queues/:name', ['/queues'], () => {
    toast('ok', say.isConfigured(queue))
    close()
  })
  const body = JSON.stringify(Object.fromEntries(settings.map(([name], i) => [name, name === 'backoff_min_ms' && values[i] === 0 ? noBackoff : values[i]])))
  const flags = Object.fromEntries(settings.map(([, flag, , , text], i) => [flag, values[i] === null ? undefined : text(values[i]!)]))
  return (
    <FormDialog
      title={say.settingsOf(queue)}
      action={words.save}
      wrong={values.includes(null)}
      write={write}
      close={close}
      act={() => write.mutate({ args: { name: queue, namespace: ns }, body })}
      command={floe(['queue', 'configure'], { ...inNamespace(ns), ...flags }, [queue])}
      call={curl('PUT', `/queues/${encodeURIComponent(queue)}`, { namespace: ns }, body)}
    >
      {settings.map(([name, , label, hint, , , problem], i) => (
        <Field key={name} label={label} {...(hint ? { hint } : {})} problem={values[i] === null ? problem : undefined}>
          <input class="input" value={texts[name]} spellcheck={false} onInput={e => setTexts({ ...texts, [name]: e.currentTarget.value })} />
        </Field>
      ))}
    </FormDialog>
  )
}
