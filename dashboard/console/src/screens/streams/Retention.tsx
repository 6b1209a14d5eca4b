import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'
import { FormDialog } from '../../ui/FormDialog'
import { Sentence } from '../../ui/Sentence'
import { toast } from '../../ui/toasts'
import { LimitFields, limitFlags, limitsOf, textsOf, type Limits } from './Limits'

/** Changes the retention of a stream. */
export function Retention({ ns, stream, now, close }: { ns: string; stream: string; now: Limits; close: () => void }) {
  const [texts, setTexts] = useState(textsOf(now))
  const limits = limitsOf(texts)
  const write = useWrite('PUT /api/v1/streams/:name', ['/streams'], () => {
    toast('ok', say.isRetained(stream))
    close()
  })
  const body = JSON.stringify({ retention: limits })
  return (
    <FormDialog
      title={say.retentionOf(stream)}
      action={strings.words.save}
      wrong={!limits}
      write={write}
      close={close}
      act={() => write.mutate({ args: { name: stream, namespace: ns }, body })}
      command={floe(['stream', 'configure'], { ...inNamespace(ns), ...limitFlags(limits) }, [stream])}
      call={curl('PUT', `/streams/${encodeURIComponent(stream)}`, { namespace: ns }, body)}
    >
      <LimitFields texts={texts} change={setTexts} />
      <p>
        <Sentence of={say.willRetain} put={{ stream: <code>{stream}</code>, ns: <code>{ns}</code> }} />
      </p>
    </FormDialog>
  )
}
