import './Graph.css'
import * as dagre from '@dagrejs/dagre'
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { GraphEdge, GraphNode } from '../api/routes'
import { edgeKey } from '../lib/graph'
import { strings } from '../strings'
import { toneOf } from './State'

const words = strings.words

interface Props {
  nodes: readonly GraphNode[]
  edges: readonly GraphEdge[]
  label: string
  walked?: { nodes: ReadonlySet<string>; edges: ReadonlySet<string>; at?: string }
  note?: (node: GraphNode) => string // a second line
  selected?: string
  select?: (id: string) => void
  down?: boolean // top to bottom instead of left to right
}

/** Steps, operators: boxes in reading order, with what leads from one to another. Boxes are buttons, named by what they show. */
export default function Graph({ nodes, edges, label, walked, note, selected, select, down }: Props) {
  const notes = nodes.map(n => note?.(n) ?? '')
  const wide = useMemo(() => layout(nodes, edges, !!down, notes), [nodes, edges, down, notes.join('\n')])
  const host = useRef<HTMLDivElement>(null)
  const [room, setRoom] = useState(Infinity)
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => setRoom(host.current?.clientWidth || Infinity))
    watch.observe(host.current!)
    return () => watch.disconnect()
  }, [])
  // What does not fit from left to right goes from top to bottom.
  const narrow = !down && wide.width * smallest > room
  const laid = useMemo(() => (narrow ? layout(nodes, edges, true, notes) : wide), [wide, narrow])
  return (
    <div ref={host} class="graph" role="group" aria-label={label} tabIndex={0}>
      <svg width={laid.width} viewBox={`0 0 ${laid.width} ${laid.height}`} style={{ minWidth: `${Math.round(laid.width * smallest)}px` }}>
        <defs>
          {['arrow', 'arrow-on'].map(id => (
            <marker
              key={id}
              id={id}
              class={id}
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerUnits="userSpaceOnUse"
              markerWidth="9"
              markerHeight="9"
              orient="auto-start-reverse"
            >
              <path d="M0 0 8 4 0 8z" />
            </marker>
          ))}
        </defs>
        {laid.edges.map((e, i) => {
          const on = walked?.edges.has(edgeKey(e.from, e.to)) ?? false
          return (
            <g key={i} class={on ? 'edge on' : 'edge'} aria-hidden="true">
              <path d={e.path} marker-end={on ? 'url(#arrow-on)' : 'url(#arrow)'} />
              {e.label && (
                <text x={e.x} y={e.y} text-anchor="middle">
                  {e.label}
                </text>
              )}
            </g>
          )
        })}
        {laid.nodes.map(n => {
          const end = n.node.kind.startsWith('end-')
          const on = walked?.nodes.has(n.node.id) ?? false
          const classes = [
            'node',
            `node-${end ? 'end ' + toneOf(n.node.kind.slice(4)) : 'step'}`,
            on ? 'on' : '',
            walked && !on ? 'off' : '',
            walked?.at === n.node.id ? 'at' : '',
            selected === n.node.id ? 'selected' : '',
          ].join(' ')
          const second = note?.(n.node) ?? ''
          const name = end ? n.node.label : n.node.id === '_start' ? words.startStep : n.node.id
          const what = end ? n.node.kind.slice(4).replace('_', ' ') : `${n.node.kind} ${n.node.label}`
          return (
            <g
              key={n.node.id}
              class={classes}
              transform={`translate(${n.x} ${n.y})`}
              {...(select
                ? {
                    role: 'button',
                    tabIndex: 0,
                    'aria-pressed': selected === n.node.id,
                    onClick: () => select(n.node.id),
                    onKeyDown: (e: KeyboardEvent) => (e.key === 'Enter' || e.key === ' ') && (e.preventDefault(), e.stopPropagation(), select(n.node.id)),
                  }
                : {})}
            >
              <rect width={n.width} height={n.height} rx={end ? n.height / 2 : 6} />
              <text class="node-name" x={n.width / 2} y={second || !end ? 17 : 20} text-anchor="middle">
                {clip(name, 24)}
              </text>{' '}
              {(!end || second) && (
                <text class="node-what" x={n.width / 2} y={32} text-anchor="middle">
                  {clip(second || what, 30)}
                </text>
              )}
            </g>
          )
        })}
      </svg>
    </div>
  )
}

const smallest = 0.7 // of its size: below that texts of 11 px are no texts
const clip = (s: string, n: number) => (s.length > n ? s.slice(0, n - 1) + '…' : s)

function layout(nodes: readonly GraphNode[], edges: readonly GraphEdge[], down: boolean, notes: readonly string[]) {
  const g = new dagre.graphlib.Graph({ multigraph: true })
  g.setGraph({ rankdir: down ? 'TB' : 'LR', nodesep: 22, ranksep: down ? 36 : 56, marginx: 8, marginy: 8 })
  g.setDefaultEdgeLabel(() => ({}))
  const known = new Set(nodes.map(n => n.id))
  for (const [i, n] of nodes.entries()) {
    const end = n.kind.startsWith('end-')
    const text = Math.max(
      clip(n.id === '_start' ? words.startStep : end ? n.label : n.id, 24).length * 7.4,
      clip(notes[i] || (end ? '' : `${n.kind} ${n.label}`), 30).length * 6.2,
    )
    g.setNode(n.id, { width: Math.max(84, text + 24), height: end ? 30 : 42 })
  }
  // Outcomes that lead the same way are one line.
  const joined = new Map<string, GraphEdge>()
  for (const e of edges) {
    if (!known.has(e.from) || !known.has(e.to)) continue
    const key = edgeKey(e.from, e.to)
    const has = joined.get(key)
    joined.set(key, has ? { ...has, label: `${has.label}, ${e.label}` } : e)
  }
  for (const [key, e] of joined) g.setEdge(e.from, e.to, { label: e.label, width: e.label.length * 6, height: 14, labelpos: 'c' }, key)
  dagre.layout(g)
  const size = g.graph() as { width?: number; height?: number }
  return {
    width: Math.ceil(size.width ?? 100),
    height: Math.ceil(size.height ?? 50),
    nodes: nodes.map(node => {
      const at = g.node(node.id) as { x: number; y: number; width: number; height: number }
      return { node, x: at.x - at.width / 2, y: at.y - at.height / 2, width: at.width, height: at.height }
    }),
    edges: [...joined].map(([key, e]) => {
      const at = g.edge({ v: e.from, w: e.to, name: key }) as { points: { x: number; y: number }[]; x?: number; y?: number }
      return { from: e.from, to: e.to, label: clip(e.label, 28), x: at.x ?? 0, y: (at.y ?? 0) + 4, path: curve(at.points) }
    }),
  }
}

function curve(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points
  if (!first) return ''
  let d = `M${first.x} ${first.y}`
  for (let i = 0; i < rest.length; i++) {
    const a = rest[i]!
    const b = rest[i + 1]
    if (!b) d += `L${a.x} ${a.y}`
    else d += `Q${a.x} ${a.y} ${(a.x + b.x) / 2} ${(a.y + b.y) / 2}`
  }
  return d
}
