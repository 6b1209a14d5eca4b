import { count, plural } from '../lib/format'

export const ts = {
  writeTitle: (ns: string) => `Write points in ${ns}`,
  timesAreIn: 'Times are in',
  timeHint: 'a line without a time is of now',
  lineHint: 'cpu,host=web-01 usage=12.5,load=0.7 1700000000000',
  linesLabel: 'Lines as they are read',
  written: (points: number, refused: number) => `${plural(points, 'point')} written${refused > 0 ? `, ${plural(refused, 'line')} refused` : ''}.`,
  writeMany: (n: number) => `Write ${count(n)}`,
  refused: (line: number, error: string) => `Line ${line}: ${error}`,
  fromTo: (from: string, to: string) => `${from} to ${to}`,
  facts: (series: number, fields: number, retention: string) => `${plural(series, 'series', 'series')} · ${plural(fields, 'field')} · keeps ${retention}`,
  meanPer: (type: string, step: string) => `${type} · mean per ${step}`,
  backToNow: 'Back to now',
  andMore: 'and more',
  missing: (name: string, ns: string) => `There is no measurement ${name} in the namespace ${ns}.`,
  firstSeries: (mostLines: number, x: string) => ` · the first ${mostLines} of ${x} series: choose tags`,
  noPoints: 'No points in this time.',
  chartLabel: (name: string, measurement: string, n: string) => `${name} of ${measurement}: ${n} points`,
  pointsOf: (label: string) => `Points of ${label}`,
  writePoints: 'Write points',
  empty: (ns: string) => `The namespace ${ns} has no time series yet.`,
}

export const lines = {
  tag: 'tag',
  field: 'field',
  noPair: (what: string, text: string) => `${what} ${text} is not name=value`,
  noMeasurement: 'the measurement is missing',
  noFields: 'the fields are missing: measurement,tag=value field=1.5 time',
  textField: (name: string) => `field ${name} is text, which time series do not hold`,
  badField: (name: string, value: string) => `field ${name} is ${value}, it takes a number, an integer such as 12i, or true or false`,
  badTime: (time: string, precision: string) => `the time is ${time}, it takes an integer of ${precision}`,
  more: (text: string) => `${text} follows the time`,
}
