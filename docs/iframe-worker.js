/* Search where pages come from files: browsers start no Worker there, so the worker's script runs in a hidden frame. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.title = "search"
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) => Promise.all(urls.map(one => this.load(one)))
      this.load(url).then(() => {
        this.loaded = true
        this.waiting.forEach(data => this.postMessage(data))
      })
    }
    load(url) {
      const script = this.frame.contentDocument.createElement("script")
      script.src = new URL(url, document.baseURI)
      const done = new Promise((loaded, failed) => Object.assign(script, { onload: loaded, onerror: failed }))
      this.frame.contentDocument.body.append(script)
      return done
    }
    postMessage(data) {
      const inside = this.frame.contentWindow
      if (this.loaded) inside.dispatchEvent(new inside.MessageEvent("message", { data }))
      else this.waiting.push(data)
    }
    terminate() {
      this.frame.remove()
    }
  }
}
