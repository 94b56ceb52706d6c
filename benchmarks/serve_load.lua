-- A script for wrk: every session has at most one request on its way, and steps are numbered.
-- wrk does not say which connection an answer came from, but every answer names its session.

local names, observations, prefix = {}, {}, "/v1/sessions/"
local free, first, last, steps = {}, 1, 0, {}
local token, limit, is_checked = nil, 50, false
statuses, lost = {}, 0

function setup(thread)
   threads = threads or {}
   table.insert(threads, thread)
end

function init(arguments)
   local file = io.open(arguments[1])
   token, limit = file:read("*l"), tonumber(file:read("*l"))
   for line in file:lines() do
      local kind, text = line:match("^(%a+) (.+)$")
      if kind == "session" then
         last = last + 1
         free[last], steps[text] = text, 0
      else
         table.insert(observations, text)
      end
   end
   file:close()
end

local function post(path, body)
   return table.concat({
      "POST ", prefix, path, " HTTP/1.1\r\nHost: ", wrk.host, "\r\nAuthorization: Bearer ", token,
      "\r\nContent-Type: application/json\r\nContent-Length: ", #body, "\r\n\r\n", body,
   })
end

function request()
   local name = free[first]
   if name == nil then -- its answer was lost with a connection
      lost = lost + 1
      return post("none/act", "{}")
   end
   local step = steps[name]
   if is_checked then -- wrk asks once without sending
      free[first], first = nil, first + 1
   end
   is_checked = true
   if step == limit then
      steps[name] = 0
      return post(name .. "/reset", "")
   end
   if first > 1 then
      steps[name] = step + 1
   end
   local shown = observations[(first + step) % #observations + 1]
   return post(name .. "/act", '{"step":' .. step .. ',"observations":' .. shown .. "}")
end

function response(status, headers, body)
   statuses[status] = (statuses[status] or 0) + 1
   local name = body:match('"session":"([^"]+)"')
   if name ~= nil then
      last = last + 1
      free[last] = name
   end
end

function done(summary, latency, requests)
   local counted, missing = {}, 0
   for _, thread in ipairs(threads) do
      for status, count in pairs(thread:get("statuses")) do
         counted[status] = (counted[status] or 0) + count
      end
      missing = missing + thread:get("lost")
   end
   local told = {}
   for status, count in pairs(counted) do
      table.insert(told, string.format('"%d": %d', status, count))
   end
   local errors = summary.errors
   io.write(string.format(
      'RESULT {"seconds": %.3f, "requests": %d, "bytes": %d, "p50_ms": %.3f, "p90_ms": %.3f, ' ..
      '"p99_ms": %.3f, "p999_ms": %.3f, "max_ms": %.3f, "statuses": {%s}, "lost": %d, ' ..
      '"socket_errors": {"connect": %d, "read": %d, "write": %d, "timeout": %d}}\n',
      summary.duration / 1e6, summary.requests, summary.bytes, latency:percentile(50) / 1e3,
      latency:percentile(90) / 1e3, latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3,
      latency.max / 1e3, table.concat(told, ", "), missing,
      errors.connect, errors.read, errors.write, errors.timeout))
end
