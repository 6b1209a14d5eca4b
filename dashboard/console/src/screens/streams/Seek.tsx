import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'
import { Field } from '../../ui/Field'
import { FormDialog } from '../../ui/FormDialog'
import { Sentence } from '../../ui/Sentence'
import { toast } from '../../ui/toasts'

const words = strings.words

/** An ID, or a time as ms; '' if it is neither. */
export function placeOf(text: string): string {
  const t = text.trim()
  if (/^\d{1,15}(-\d+)?$/.test(t)) return t
  const at = /^\d{4}-\d\d-\d\d/.test(t) ? Date.parse(t) : NaN
  return Number.isNaN(at) ? '' : String(at)
}

/** Moves a consumer group, in all partitions or in one. */
export function Seek({
  ns,
  stream,
  group,
  partitions,
  close,
}: {
  ns: string
  stream: string
  group: string
  partitions: readonly number[]
  close: () => void
}) {
  const [where, setWhere] = useState<'earliest' | 'latest' | 'at'>('earliest')
  const [text, setText] = useState('')
  const [partition, setPartition] = useState('')
  const to = where === 'at' ? placeOf(text) : where
  const write = useWrite('POST /api/v1/streams/:name/groups/:group/seek', ['/streams'], () => {
    toast('ok', say.isMoved(group))
    close()
  })
  const body = JSON.stringify({ to })
  const place = where === 'earliest' ? 'beginning' : where === 'latest' ? 'end' : to || 'WHERE'
  return (
    <FormDialog
      title={say.seekTitle(group)}
      action={say.seek}
      wrong={to === ''}
      write={write}
      close={close}
      act={() => write.mutate({ args: { name: stream, group, namespace: ns, partition }, body })}
      command={floe(['stream', 'group', 'seek'], { ...inNamespace(ns), partition }, [stream, group, place])}
      call={curl('POST', `/streams/${encodeURIComponent(stream)}/groups/${encodeURIComponent(group)}/seek`, { namespace: ns, partition }, body)}
    >
      <div class="row gap-16 wrap">
        <Field label={say.position}>
          <select class="select" value={where} onChange={e => setWhere(e.currentTarget.value as typeof where)}>
            <option value="earliest">{say.earliest}</option>
            <option value="latest">{say.latest}</option>
            <option value="at">{say.idOrTime}</option>
          </select>
        </Field>
        {where === 'at' && (
          <Field label={say.idOrTime} hint={say.placeHint} problem={text !== '' && to === '' ? say.badPlace : undefined}>
            <input class="input mono" value={text} spellcheck={false} onInput={e => setText(e.currentTarget.value)} />
          </Field>
        )}
        {partitions.length > 1 && (
          <Field label={words.partition}>
            <select class="select" value={partition} onChange={e => setPartition(e.currentTarget.value)}>
              <option value="">{words.any}</option>
              {partitions.map(p => (
                <option key={p} value={String(p)}>
                  {p}
                </option>
              ))}
            </select>
          </Field>
        )}
      </div>
      <p>
        <Sentence of={say.willSeek} put={{ group: <code>{group}</code>, stream: <code>{stream}</code>, ns: <code>{ns}</code> }} />
      </p>
    </FormDialog>
  )
}
