-- The requests of one measurement, all made before it begins, and what wrk saw, as JSON.
--
-- Arguments: method, path, keys, stride, bytes of the body, requests sent at once, per cent of POSTs
-- instead.
-- A "#" in the path stands for the number of the key: 0, stride, 2 * stride and so on, `keys` of
-- them in turn.

local batches, turn = {}, 0

function init(args)
  local method, path = args[1], args[2]
  local keys, stride = tonumber(args[3]), tonumber(args[4])
  local bytes, depth = tonumber(args[5]), tonumber(args[6])
  local writes = tonumber(args[7])
  local body = nil
  if bytes > 0 then body = string.rep("v", bytes) end
  local key = 0
  for batch = 1, math.max(1, math.floor(keys / depth)) do
    local requests = {}
    for place = 1, depth do
      local target = path:gsub("#", string.format("%d", (key % keys) * stride))
      if writes == 0 then
        requests[place] = wrk.format(method, target, nil, body)
      elseif math.random(100) <= writes then
        requests[place] = wrk.format("POST", target, nil, body)
      else
        requests[place] = wrk.format(method, target)
      end
      key = key + 1
    end
    batches[batch] = table.concat(requests)
  end
end

function request()
  turn = turn % #batches + 1
  return batches[turn]
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    'BENCH {"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, ' ..
    '"refused": %d, "broken": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
