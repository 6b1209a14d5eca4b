import { useMemo, useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { dateTime } from '../../lib/format'
import { checkLines, type Precision } from '../../lib/lineproto'
import { useZone } from '../../lib/prefs'
import { curl, floe, inNamespace, quote } from '../../lib/snippets'
import { strings } from '../../strings'
import { ts as say } from '../../strings/ts'
import { Dialog } from '../../ui/Dialog'
import { Segmented } from '../../ui/Field'
import { Editor } from '../../ui/Lazy'
import { Snippet } from '../../ui/Snippet'
import { toast } from '../../ui/toasts'

const words = strings.words

/** Writes points in line protocol, which is checked while it is typed. */
export function Ingest({ ns, close }: { ns: string; close: () => void }) {
  const [text, setText] = useState('')
  const [precision, setPrecision] = useState<Precision>('ms')
  const zone = useZone()
  const lines = useMemo(() => checkLines(text, precision), [text, precision])
  const bad = lines.filter(l => l.error !== '')
  const marks = useMemo(() => bad.map(l => ({ line: l.line, severity: 'error' as const, message: l.error })), [lines])
  const [refused, setRefused] = useState<{ line: number; error: string }[]>([])
  const write = useWrite('POST /api/v1/console/timeseries/write', ['/timeseries'], data => {
    setRefused(data.errors)
    toast(data.errors.length > 0 ? 'crit' : 'ok', say.written(data.written, data.errors.length))
    if (data.errors.length === 0) close()
  })
  const submit = () => {
    if (lines.length > bad.length && !write.isPending) write.mutate({ args: { namespace: ns, precision }, body: text })
  }
  return (
    <Dialog
      title={say.writeTitle(ns)}
      close={close}
      submit={submit}
      wide
      footer={
        <>
          <button type="button" class="btn" onClick={close}>
            {strings.cancel}
          </button>
          <button class="btn primary" disabled={lines.length === bad.length || write.isPending}>
            {say.writeMany(lines.length - bad.length)}
          </button>
        </>
      }
    >
      <div class="row wrap">
        <span class="dim">{say.timesAreIn}</span>
        <Segmented
          label={words.precision}
          value={precision}
          options={
            [
              ['ns', 'ns'],
              ['us', 'µs'],
              ['ms', 'ms'],
              ['s', 's'],
            ] as const
          }
          change={setPrecision}
        />
        <span class="dim">{say.timeHint}</span>
      </div>
      <Editor value={text} change={setText} language="text" label={words.lines} submit={submit} marks={marks} hint={say.lineHint} />
      {lines.length > 0 && (
        <div class="scroll-x panel" tabIndex={0} role="region" aria-label={say.linesLabel} style={{ maxHeight: '180px', overflow: 'auto' }}>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col" class="num">
                  {words.line}
                </th>
                <th scope="col">{words.measurement}</th>
                <th scope="col">{words.tags}</th>
                <th scope="col">{words.fields}</th>
                <th scope="col">{words.time}</th>
              </tr>
            </thead>
            <tbody>
              {lines.slice(0, 100).map(l => (
                <tr key={l.line}>
                  <td class="num">{l.line}</td>
                  {l.error ? (
                    <td colSpan={4} class="crit">
                      {l.error}
                    </td>
                  ) : (
                    <>
                      <td>{l.measurement}</td>
                      <td class="mono">{l.tags.map(([k, v]) => `${k}=${v}`).join(' ')}</td>
                      <td class="mono">{l.fields.map(([k, v]) => `${k}=${v}`).join(' ')}</td>
                      <td class="nowrap">{l.time === null ? words.now : dateTime(l.time, zone)}</td>
                    </>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {refused.map(r => (
        <p key={r.line} class="crit">
          {say.refused(r.line, r.error)}
        </p>
      ))}
      {write.error && (
        <p class="crit" role="alert">
          {write.error.message}
        </p>
      )}
      <Snippet
        command={`printf '%s\\n' ${quote(text.trim() || 'cpu usage=1')} | ${floe(['ts', 'import'], { ...inNamespace(ns), precision }, ['-'])}`}
        call={curl('POST', '/console/timeseries/write', { namespace: ns, precision }, text.trim())}
      />
    </Dialog>
  )
}
