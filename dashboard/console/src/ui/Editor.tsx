import './Editor.css'
import { autocompletion, completionKeymap, type CompletionSource } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { json } from '@codemirror/lang-json'
import { yaml } from '@codemirror/lang-yaml'
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, setDiagnostics, type Diagnostic } from '@codemirror/lint'
import { Compartment, EditorState, RangeSetBuilder } from '@codemirror/state'
import { Decoration, EditorView, keymap, lineNumbers, placeholder, ViewPlugin, type DecorationSet, type ViewUpdate } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { tokens } from '../lib/floql'

export interface Mark {
  line?: number // from 1: the whole line
  from?: number // or a place
  to?: number
  severity: 'error' | 'warning'
  message: string
}

interface Props {
  value: string
  change?: (text: string) => void // without: read only
  language: 'json' | 'yaml' | 'floql' | 'text'
  label: string
  submit?: () => void // Ctrl Enter
  marks?: readonly Mark[]
  complete?: CompletionSource
  line?: number // shown and lit
  hint?: string
  lines?: boolean
}

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--info)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--ok)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--warn)' },
  { tag: tags.keyword, color: 'var(--wait)' },
  { tag: tags.comment, color: 'var(--text-2)' },
])

const look = EditorView.theme({
  '&': { backgroundColor: 'var(--surface)', color: 'var(--text)', fontSize: '12px' },
  '.cm-content': { fontFamily: 'var(--mono)', caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--text-2)', border: 'none' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 28%, transparent)',
  },
  '.cm-tooltip': { backgroundColor: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--line-strong)' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--surface)' },
  '.cm-completionDetail': { color: 'var(--text-2)', fontStyle: 'normal' },
  '.cm-lit': { backgroundColor: 'var(--hover)' },
  '.cm-placeholder': { color: 'var(--text-2)' },
  '.q-stage': { color: 'var(--wait)', fontWeight: '600' },
  '.q-unknown': { color: 'var(--crit)' },
  '.q-measurement': { color: 'var(--accent)', fontWeight: '600' },
  '.q-tag': { color: 'var(--info)' },
  '.q-string': { color: 'var(--ok)' },
  '.q-number': { color: 'var(--warn)' },
  '.q-comment': { color: 'var(--text-2)' },
})

/** What is put in the place of selected text; null: nothing that the browser would do anyway. */
function replacement(e: InputEvent): string | null {
  if (e.inputType === 'insertParagraph' || e.inputType === 'insertLineBreak') return '\n'
  if (e.inputType.startsWith('delete')) return ''
  return e.inputType === 'insertText' || e.inputType === 'insertReplacementText' ? (e.data ?? e.dataTransfer?.getData('text/plain') ?? null) : null
}

/**
 * Replaces selected text by a change of the document. Left to itself, the browser joins the lines that are left and keeps the colour of what is gone in a style
 * attribute, which the policy forbids: it would report a violation for each.
 */
const replaceByHand = EditorView.domEventHandlers({
  beforeinput(e, v) {
    const text = v.composing || v.state.readOnly || v.state.selection.main.empty ? null : replacement(e)
    if (text === null) return false
    v.dispatch(v.state.update(v.state.replaceSelection(text), { userEvent: text === '' ? 'delete.selection' : 'input.type', scrollIntoView: true }))
    e.preventDefault()
    return true
  },
})

/** Colours FloQL by its own tokens. */
const floqlColours = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet
    constructor(view: EditorView) {
      this.decorations = this.paint(view)
    }
    update(u: ViewUpdate) {
      if (u.docChanged) this.decorations = this.paint(u.view)
    }
    paint(view: EditorView): DecorationSet {
      const found = new RangeSetBuilder<Decoration>()
      for (const t of tokens(view.state.doc.toString()))
        if (t.kind !== 'word' && t.kind !== 'punct') found.add(t.from, t.to, Decoration.mark({ class: `q-${t.kind}` }))
      return found.finish()
    }
  },
  { decorations: v => v.decorations },
)

/** Text with colours, completion and marks. It lives in a shadow root, where its styles need no exception from the policy. */
export default function Editor(p: Props) {
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView | null>(null)
  const props = useRef(p)
  props.current = p
  const lit = useRef(new Compartment())
  // Layout effects run with the render that changed the value. A plain effect runs later, with whatever was typed in between: it would take an older value for
  // a new one, put it back, and the two would change each other for ever.
  useLayoutEffect(() => {
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: 'open' })
    const language = p.language === 'json' ? [json()] : p.language === 'yaml' ? [yaml()] : p.language === 'floql' ? [floqlColours] : []
    const v = new EditorView({
      root,
      parent: root as unknown as Element,
      state: EditorState.create({
        doc: p.value,
        extensions: [
          p.lines === false ? [] : lineNumbers(),
          history(),
          bracketMatching(),
          indentOnInput(),
          syntaxHighlighting(colours),
          look,
          language,
          lintGutter(),
          p.hint ? placeholder(p.hint) : [],
          p.complete ? autocompletion({ override: [c => props.current.complete!(c)] }) : [],
          replaceByHand,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': p.label }),
          p.change ? [] : [EditorState.readOnly.of(true)],
          keymap.of([
            { key: 'Mod-Enter', run: () => (props.current.submit ? (props.current.submit(), true) : false) },
            ...completionKeymap,
            ...defaultKeymap,
            ...historyKeymap,
            ...(p.language === 'floql' ? [] : [indentWithTab]),
          ]),
          EditorView.updateListener.of(u => {
            if (u.docChanged) props.current.change?.(u.state.doc.toString())
          }),
          lit.current.of([]),
        ],
      }),
    })
    view.current = v
    // The first field of a dialog has the focus; see ui/Dialog.
    if (p.change && host.current!.closest('dialog') && !document.activeElement?.matches('input, select, textarea')) v.focus()
    return () => v.destroy()
  }, [p.language, p.change === undefined])
  useLayoutEffect(() => {
    const v = view.current
    if (v && v.state.doc.toString() !== p.value) v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: p.value } })
  }, [p.value])
  useLayoutEffect(() => {
    const v = view.current
    if (!v) return
    const all: Diagnostic[] = (p.marks ?? []).map(m => {
      const length = v.state.doc.length
      const line = m.line ? v.state.doc.line(Math.min(Math.max(1, m.line), v.state.doc.lines)) : null
      const from = Math.min(length, line ? line.from : (m.from ?? 0))
      return { from, to: Math.min(length, Math.max(from, line ? line.to : (m.to ?? from + 1))), severity: m.severity, message: m.message }
    })
    v.dispatch(setDiagnostics(v.state, all))
  }, [p.marks, p.value])
  useLayoutEffect(() => {
    const v = view.current
    if (!v || !p.line || p.line > v.state.doc.lines) return
    const line = v.state.doc.line(p.line)
    v.dispatch({
      effects: [
        lit.current.reconfigure(EditorView.decorations.of(Decoration.set([Decoration.line({ class: 'cm-lit' }).range(line.from)]))),
        EditorView.scrollIntoView(line.from, { y: 'center' }),
      ],
    })
  }, [p.line])
  return <div ref={host} class="editor" data-editor />
}
