// The fragment is the route, so the path of the page is where the console is mounted, whatever the host calls that.

/** The address that everything is relative to; it ends with a slash. */
export function mount(): URL {
  const base = typeof document === 'undefined' ? '' : document.baseURI
  return new URL('.', base.startsWith('http') ? base.split('#')[0] : 'http://localhost/')
}

/** The address of an endpoint: its path below /api/v1. */
export function apiURL(path: string): URL {
  return new URL('api/v1' + path, mount())
}

/** The key under which this mount keeps something in the browser: the origin belongs to the host. */
export function localKey(name: string): string {
  return `floe:${mount().pathname}:${name}`
}

/** Reads what was kept, else the fallback: storage may be forbidden, and what is in it may be anything. */
export function recall<T>(name: string, fallback: T): T {
  try {
    const text = localStorage.getItem(localKey(name))
    return text === null ? fallback : (JSON.parse(text) as T)
  } catch {
    return fallback
  }
}

export function keep(name: string, value: unknown) {
  try {
    localStorage.setItem(localKey(name), JSON.stringify(value))
  } catch {
    // It is forgotten with the page then.
  }
}
