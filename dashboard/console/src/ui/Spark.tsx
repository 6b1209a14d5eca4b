import './Spark.css'

/** A line of values over time; null is a gap. It is decoration: the figures beside it say what it shows. */
export function Spark({ values, label, height = 48 }: { values: readonly (number | null)[]; label: string; height?: number }) {
  const width = 600
  const most = Math.max(1, ...values.map(v => v ?? 0))
  const x = (i: number) => (values.length < 2 ? width : (i / (values.length - 1)) * width)
  const y = (v: number) => height - 2 - (v / most) * (height - 6)
  const runs: string[] = []
  let run: string[] = []
  values.forEach((v, i) => {
    if (v === null) {
      if (run.length) runs.push(run.join(' '))
      run = []
    } else run.push(`${x(i).toFixed(1)},${y(v).toFixed(1)}`)
  })
  if (run.length) runs.push(run.join(' '))
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" style={{ height: `${height}px` }} role="img" aria-label={label}>
      {runs.map(points => {
        const first = points.split(',')[0]
        const last = points.slice(points.lastIndexOf(' ') + 1).split(',')[0]
        return (
          <g key={points}>
            <polygon class="spark-area" points={`${first},${height} ${points} ${last},${height}`} />
            <polyline class="spark-line" points={points} />
          </g>
        )
      })}
    </svg>
  )
}
