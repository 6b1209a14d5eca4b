import './Payload.css'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { asText, fromBase64, hexLines, toBase64 } from '../lib/bytes'
import { copy, download } from '../lib/clipboard'
import { bytes } from '../lib/format'
import { isJSON, prettyLines, type Token } from '../lib/json'
import { useSliced } from '../lib/slices'
import { strings } from '../strings'
import { Segmented } from './Field'
import { Icon } from './Icon'
import { Lines } from './Lines'

type Mode = 'auto' | 'json' | 'text' | 'hex' | 'base64'

const someBytes = 64 << 10
const mostBytes = 1 << 20

interface Props {
  text: string
  label: string
  size?: number // bytes of the whole, if text may be less
  lossy?: boolean // bytes in it were replaced
  base64?: () => Promise<string> // reads the bytes as they are
  file?: string
}

/** Stored bytes as they are: JSON by its tokens, text, hex or base64. */
export function Payload({ text, label, size, lossy, base64, file = 'payload' }: Props) {
  const [mode, setMode] = useState<Mode>('auto')
  const [wrap, setWrap] = useState(true)
  const [all, setAll] = useState(false)
  const [raw, setRaw] = useState<Uint8Array<ArrayBuffer> | null>(null)
  const [problem, setProblem] = useState('')
  const length = size ?? new TextEncoder().encode(text).length
  const cut = !lossy && length > text.length * 4
  useEffect(() => {
    setRaw(null)
    setAll(false)
    setProblem('')
  }, [text, size])
  // Of a large text the beginning is enough: it is formatted in slices, and as text where it turns out to be no JSON.
  const looksJSON = useMemo(() => /^\s*[[{]/.test(text) && (text.length > someBytes || isJSON(text)), [text])
  const effective = mode === 'auto' ? (lossy ? 'hex' : looksJSON ? 'json' : 'text') : mode
  const needBytes = (lossy || cut) && (effective === 'hex' || effective === 'base64')
  useEffect(() => {
    if (!needBytes || raw || !base64) return
    let live = true
    base64().then(
      t => live && setRaw(fromBase64(t)),
      (e: Error) => live && setProblem(e.message),
    )
    return () => {
      live = false
    }
  }, [needBytes, raw, text])
  const data = raw ?? (new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>)
  const tooLong = !all && text.length > someBytes
  const shown = tooLong ? text.slice(0, someBytes) : text
  const sliced = useSliced<string | Token[]>(
    () => {
      if (needBytes && !raw) return [].values()
      if (effective === 'hex') return hexLines(all ? data : data.subarray(0, someBytes))
      if (effective === 'base64') return (toBase64(data).match(/.{1,76}/g) ?? []).values()
      return effective === 'json' && !tooLong ? prettyLines(text) : shown.split('\n').values()
    },
    () => shown.split('\n').values(),
    [text, effective, all, raw, needBytes],
  )
  const lines = sliced.made
  const asCopied = () =>
    effective === 'hex' || effective === 'base64'
      ? lines.join('\n')
      : effective === 'json'
        ? (lines as Token[][]).map(l => (typeof l === 'string' ? l : l.map(t => t.text).join(''))).join('\n')
        : text
  const [copied, setCopied] = useState(false)
  return (
    <div class="payload">
      <div class="payload-tools">
        <Segmented
          label={strings.payloadAs(label)}
          value={mode}
          options={
            [
              ['auto', strings.auto],
              ['json', 'JSON'],
              ['text', strings.text],
              ['hex', 'Hex'],
              ['base64', 'Base64'],
            ] as const
          }
          change={setMode}
        />
        <span class="dim nowrap">{bytes(length)}</span>
        <span class="row push">
          <button class="btn quiet" aria-pressed={wrap} onClick={() => setWrap(!wrap)}>
            {strings.wrap}
          </button>
          <button
            class="btn quiet"
            aria-label={strings.copyWhat(label)}
            disabled={!sliced.done}
            onClick={async () => {
              if (await copy(asCopied())) {
                setCopied(true)
                setTimeout(() => setCopied(false), 1500)
              }
            }}
          >
            <Icon name={copied ? 'ok' : 'copy'} />
          </button>
          <button
            class="btn quiet"
            aria-label={strings.downloadWhat(label)}
            title={strings.download}
            onClick={async () => download(file, lossy && base64 ? fromBase64(await base64()) : text)}
          >
            <Icon name="download" />
          </button>
        </span>
      </div>
      {lossy && (effective === 'text' || effective === 'json') && <div class="note warn">{strings.lossy}</div>}
      {effective === 'hex' && raw && asText(raw) === null && <div class="note">{strings.notUTF8}</div>}
      {problem && <div class="note crit">{problem}</div>}
      {length === 0 ? <div class="payload-empty">{strings.emptyValue}</div> : <Lines lines={lines} wrap={wrap} label={label} busy={!sliced.done} />}
      {tooLong && (
        <div class="note">
          {strings.firstPart(bytes(someBytes), bytes(length))}
          {length <= mostBytes ? (
            <button class="btn quiet" onClick={() => setAll(true)}>
              {strings.showAll(bytes(length))}
            </button>
          ) : (
            <span>{strings.downloadOnly}</span>
          )}
        </div>
      )}
    </div>
  )
}
