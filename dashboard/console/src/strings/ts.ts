import { count, plural } from '../lib/format'

export const ts = {
  writeTitle: (ns: string) => `Write points to ${ns}`,
  timesAreIn: 'Times are in',
  timeHint: 'lines without a timestamp use the current time',
  lineHint: 'cpu,host=web-01 usage=12.5,load=0.7 1700000000000',
  linesLabel: 'Parsed lines',
  written: (points: number, refused: number) => `${plural(points, 'point')} written${refused > 0 ? `, ${plural(refused, 'line')} rejected` : ''}.`,
  writeMany: (n: number) => `Write ${count(n)}`,
  refused: (line: number, error: string) => `Line ${line}: ${error}`,
  fromTo: (from: string, to: string) => `${from} to ${to}`,
  facts: (series: number, fields: number, retention: string) => `${plural(series, 'series', 'series')} · ${plural(fields, 'field')} · retention ${retention}`,
  meanPer: (type: string, step: string) => `${type} · mean per ${step}`,
  backToNow: 'Back to now',
  andMore: 'and more',
  missing: (name: string, ns: string) => `Measurement ${name} does not exist in namespace ${ns}.`,
  firstSeries: (mostLines: number, x: string) => ` · first ${mostLines} of ${x} series: filter by tags`,
  noPoints: 'No points in this time range.',
  chartLabel: (name: string, measurement: string, n: string) => `${name} of ${measurement}: ${n} points`,
  pointsOf: (label: string) => `Points of ${label}`,
  writePoints: 'Write points',
  empty: (ns: string) => `No time series in namespace ${ns} yet.`,
}

export const lines = {
  tag: 'tag',
  field: 'field',
  noPair: (what: string, text: string) => `${what} ${text} is not name=value`,
  noMeasurement: 'missing measurement',
  noFields: 'missing fields: measurement,tag=value field=1.5 time',
  textField: (name: string) => `field ${name} is a string; time series only store numbers and booleans`,
  badField: (name: string, value: string) => `field ${name}: invalid value ${value}; use a number, an integer such as 12i, or true or false`,
  badTime: (time: string, precision: string) => `invalid timestamp ${time}: use an integer in ${precision}`,
  more: (text: string) => `unexpected ${text} after the timestamp`,
}
