// SPDX-License-Identifier: Apache-2.0
// Keep the files of this page, so that it opens without a network; a new version of them replaces the old one.
const VERSION = "@version@";
const FILES = ["./", "legcf.js", "model.legcf", "manifest.webmanifest", "icon.svg"];
const mine = `legcf ${registration.scope} `; // other pages of this host keep theirs

addEventListener("install", (event) => event.waitUntil((async () => {
  const cache = await caches.open(mine + VERSION);
  await cache.addAll(FILES.map((file) => new Request(file, { cache: "reload" })));
  await skipWaiting();
})()));

addEventListener("activate", (event) => event.waitUntil((async () => {
  for (const name of await caches.keys()) if (name.startsWith(mine) && name !== mine + VERSION) await caches.delete(name);
  await clients.claim();
})()));

addEventListener("fetch", (event) => event.respondWith((async () => {
  const cache = await caches.open(mine + VERSION);
  return (await cache.match(event.request, { ignoreSearch: true })) ?? fetch(event.request);
})()));
