// Drawn on a grid of 16. One path each, in the colour of the text.
const paths = {
  overview: 'M2 9h3l2-6 3 11 2-5h2',
  kv: 'M2 4h5v3H2zM9 4h5v3H9zM2 10h5v3H2zM9 10h5v3H9z',
  streams: 'M1 4h14M1 8h9M1 12h12',
  queues: 'M2 3h3v10H2zM7 5h3v8H7zM12 8h2v5h-2z',
  ts: 'M2 2v12h12M4 11l3-4 3 2 4-6',
  actions: 'M9 1 3 9h4l-1 6 6-8H8z',
  workers: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v3M8 12v3M1 8h3M12 8h3M3 3l2 2M11 11l2 2M13 3l-2 2M5 11l-2 2',
  processing: 'M1 8h3M4 5h4v6H4zM8 8h3M11 5h4v6h-4z',
  workflows: 'M2 2h4v4H2zM10 10h4v4h-4zM4 6v6h6M12 10V4H6',
  access: 'M5 7a3 3 0 1 0 0 6 3 3 0 0 0 0-6m2 1 6-6M10 4l3 3',
  schedules: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 5v3l3 2',
  search: 'M7 2a5 5 0 1 0 0 10A5 5 0 0 0 7 2m4 9 3 3',
  copy: 'M5 5h8v9H5zM3 11V2h8',
  refresh: 'M13 8a5 5 0 1 1-2-4M13 1v3h-3',
  pause: 'M5 3v10M11 3v10',
  play: 'm4 3 9 5-9 5z',
  sun: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1M8 14v1M1 8h1M14 8h1M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1',
  moon: 'M13 10A6 6 0 1 1 7 2a5 5 0 0 0 6 8z',
  auto: 'M8 2a6 6 0 1 0 0 12zM8 2v12M8 5h4M8 8h6M8 11h4',
  menu: 'M2 4h12M2 8h12M2 12h12',
  close: 'm3 3 10 10M13 3 3 13',
  settings: 'M2 4h6M11 4h3M8 2v4M2 12h3M8 12h6M5 10v4',
  ok: 'm3 8 3 4 7-8',
  info: 'M8 7v6M8 3v1',
  wait: 'M4 2h8M4 14h8M5 2c0 5 6 7 6 12M11 2c0 5-6 7-6 12',
  warn: 'M8 2 1 14h14zM8 7v3M8 12v.5',
  crit: 'm4 4 8 8M12 4l-8 8',
  idle: 'M3 8h10',
  up: 'm3 10 5-5 5 5',
  down: 'm3 6 5 5 5-5',
  download: 'M8 2v8M5 7l3 3 3-3M2 13h12',
  link: 'M7 9a3 3 0 0 0 4 0l3-3a3 3 0 0 0-4-4L9 3M9 7a3 3 0 0 0-4 0L2 10a3 3 0 0 0 4 4l1-1',
} as const

export type IconName = keyof typeof paths

export function Icon({ name, size = 14 }: { name: IconName; size?: number }) {
  return (
    <svg
      class="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={paths[name]} />
    </svg>
  )
}
