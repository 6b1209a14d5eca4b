import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { go, link } from '../../lib/router'
import { parseCount } from '../../lib/quantities'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'
import { Field } from '../../ui/Field'
import { FormDialog } from '../../ui/FormDialog'
import { toast } from '../../ui/toasts'
import { LimitFields, limitFlags, limitsOf, textsOf } from './Limits'

const words = strings.words

/** Creates a stream. One that exists would be changed by the same call, so its name is refused. */
export function Create({ ns, taken, close }: { ns: string; taken: readonly string[]; close: () => void }) {
  const [name, setName] = useState('')
  const [partitions, setPartitions] = useState('1')
  const [texts, setTexts] = useState(textsOf({ max_age_ms: 0, max_len: 0, max_bytes: 0 }))
  const limits = limitsOf(texts)
  const n = parseCount(partitions) ?? 0
  const exists = taken.includes(name)
  const write = useWrite('PUT /api/v1/streams/:name', ['/streams', '/namespaces'], () => {
    toast('ok', say.isCreated(name))
    close()
    go(link('streams', [name], {}, ns))
  })
  const limited = limits !== null && Object.values(limits).some(v => v > 0)
  const body = JSON.stringify({ partitions: n, ...(limited ? { retention: limits } : {}) })
  return (
    <FormDialog
      title={say.createIn(ns)}
      action={words.create}
      wrong={name === '' || exists || n === 0 || !limits}
      write={write}
      close={close}
      act={() => write.mutate({ args: { name, namespace: ns }, body })}
      command={floe(['stream', 'create'], { ...inNamespace(ns), partitions, ...(limited ? limitFlags(limits) : {}) }, [name || 'NAME'])}
      call={curl('PUT', `/streams/${encodeURIComponent(name || 'NAME')}`, { namespace: ns }, body)}
    >
      <Field label={words.stream} problem={exists ? say.exists(name) : undefined}>
        <input class="input" value={name} spellcheck={false} autocomplete="off" onInput={e => setName(e.currentTarget.value)} />
      </Field>
      <Field label={words.partitions} hint={say.partitionsHint} problem={n === 0 ? strings.badCount : undefined}>
        <input class="input num" size={6} inputMode="numeric" value={partitions} onInput={e => setPartitions(e.currentTarget.value)} />
      </Field>
      <LimitFields texts={texts} change={setTexts} />
    </FormDialog>
  )
}
