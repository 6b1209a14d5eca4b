import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { go, link } from '../../lib/router'
import { curl, floe } from '../../lib/snippets'
import { strings } from '../../strings'
import { overview as say } from '../../strings/overview'
import { Field } from '../../ui/Field'
import { FormDialog } from '../../ui/FormDialog'
import { toast } from '../../ui/toasts'

/** Creates a namespace. */
export default function NewNamespace({ suggestion, close }: { suggestion: string; close: () => void }) {
  const [name, setName] = useState(suggestion)
  const write = useWrite('POST /api/v1/namespaces', ['/namespaces'], () => {
    toast('ok', say.isCreated(name))
    close()
    go(link('overview', [], {}, name))
  })
  const body = JSON.stringify({ name })
  return (
    <FormDialog
      title={say.createNamespace}
      action={strings.words.create}
      wrong={name === ''}
      write={write}
      close={close}
      act={() => write.mutate({ args: {}, body })}
      command={floe(['ns', 'create'], {}, [name || 'NAME'])}
      call={curl('POST', '/namespaces', {}, body)}
    >
      <Field label={strings.words.name}>
        <input class="input" value={name} spellcheck={false} autocomplete="off" onInput={e => setName(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  )
}
