/** What `folder.ts` takes from Node: as much as saves a dependency. */

declare module "node:fs/promises" {
  interface File {
    writeFile(text: string): Promise<void>;
    sync(): Promise<void>;
    close(): Promise<void>;
  }
  export function link(from: string, to: string): Promise<void>;
  export function mkdir(path: string, how: { recursive: true; mode: number }): Promise<unknown>;
  export function open(path: string, flags: string, mode?: number): Promise<File>;
  export function readdir(path: string): Promise<string[]>;
  export function readFile(path: string, encoding: "utf-8"): Promise<string>;
  export function rename(from: string, to: string): Promise<void>;
  export function rm(path: string, options: { force: boolean }): Promise<void>;
}

declare module "node:path" {
  export function join(...parts: string[]): string;
}
