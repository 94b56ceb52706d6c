// Plays episodes with the policy and the environment of the page; knows nothing of the document.
//
// A position is all that the next step depends on: {state, memory, rewards, place, total, history}.
const LivePlayer = (() => {
  "use strict";
  const HAND = 1e9; // noise that decides an action, whatever the policy finds likely
  const NOISES = ["recorded", "sampled", "greedy"];

  // Marsaglia's xorshift: numbers between 0 and 1, both excluded, the same for the same seed.
  function makeRandom(seed) {
    let x = (seed ^ 0x9e3779b9) | 1;
    return () => {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      return ((x >>> 0) + 0.5) / 4294967296;
    };
  }

  function make(data) {
    const environment = Environment.make(data.config);
    const policy = Graph.load(data.program);
    const { numAgents, numActions } = environment;
    const size = numAgents * numActions;
    const episodes = data.episodes.map((each) => ({
      ...each,
      noise: new Float32Array(Graph.decode(each.noise)),
    }));

    let random = makeRandom(1);
    let episode = null; // null where the start was drawn here
    let noiseKind = "recorded";
    let now = null;
    let noise = null; // of the step to come
    let hand = new Map(); // agent -> action that the user has chosen for the step to come
    let plans = new Map(); // what the policy says of the step to come, by the user's choices

    const canReset = "reset" in environment;
    const tellsAll = "log_probs" in data.program.outputs;

    function begin(which, kind, seed) {
      random = makeRandom(seed);
      episode = which === null ? null : episodes[which];
      noiseKind = NOISES.includes(kind) ? kind : "sampled";
      now = {
        state: episode ? environment.read(episode.start) : environment.reset(random),
        memory: policy.start(),
        rewards: new Array(numAgents).fill(0),
        total: 0,
        isOver: false,
        isAsRecorded: episode !== null,
      };
      prepare();
    }

    // Noise of the next step. Where the recorded noise has ended, it is drawn here.
    function prepare() {
      hand = new Map();
      plans = new Map();
      const start = now.state.stepCount * size;
      if (noiseKind === "recorded" && episode && start + size <= episode.noise.length) {
        noise = episode.noise.slice(start, start + size);
      } else {
        noise = Float32Array.from({ length: size }, () => -Math.log(-Math.log(random())));
        if (noiseKind === "greedy") noise.fill(0);
      }
    }

    // The policy's answer where the noise decides the actions of some agents by hand.
    function plan(choices = hand) {
      const key = JSON.stringify([...choices].sort());
      if (!plans.has(key)) plans.set(key, compute(new Map(choices))); // `hand` itself changes
      return plans.get(key);
    }

    function compute(choices) {
      const mask = environment.actionMask(now.state);
      const given = {
        features: environment.features(now.state).flat(),
        action_mask: mask.flat(),
        agent_mask: new Array(numAgents).fill(1),
        reset: [now.state.stepCount === 0],
        step_count: [now.state.stepCount],
        last_rewards: now.rewards,
        noise: decided(choices),
      };
      const inputs = { ...now.memory };
      for (const { name, type, shape } of policy.inputs) {
        if (!(name in given)) continue;
        inputs[name] = Graph.tensor(type, shape);
        inputs[name].data.set(given[name]);
      }
      const outputs = policy.step(inputs);
      return { choices, mask, outputs, actions: [...outputs.actions.data] };
    }

    function decided(choices) {
      const found = noise.slice();
      for (const [agent, action] of choices) {
        found.fill(0, agent * numActions, (agent + 1) * numActions);
        found[agent * numActions + action] = HAND;
      }
      return found;
    }

    // Chances of all actions of an agent, given what those before it do in this step. A policy that
    // tells only the chance of the action it takes is asked once for each.
    function probabilities(agent, planned = plan()) {
      const { log_probs: all } = planned.outputs;
      if (all) {
        const row = all.data.subarray(agent * numActions, (agent + 1) * numActions);
        return Array.from(row, (x, action) => (planned.mask[agent][action] ? Math.exp(x) : 0));
      }
      return planned.mask[agent].map((isAllowed, action) => {
        if (!isAllowed) return 0;
        const { log_prob: one } = plan(new Map([...planned.choices, [agent, action]])).outputs;
        return Math.exp(one.data[agent]);
      });
    }

    // Of the action that an agent is about to take.
    function chance(agent) {
      const { outputs, actions } = plan();
      return outputs.log_prob ? Math.exp(outputs.log_prob.data[agent]) : probabilities(agent)[actions[agent]];
    }

    // Half the sum of what an agent's chances differ by: 0 as without the user's hand, 1 wholly other.
    function shift(agent) {
      const free = probabilities(agent, plan(new Map()));
      const led = probabilities(agent);
      return free.reduce((sum, chance, action) => sum + Math.abs(chance - led[action]), 0) / 2;
    }

    function choose(agent, action) {
      if (action === null) hand.delete(agent);
      else if (environment.actionMask(now.state)[agent][action]) hand.set(agent, action);
    }

    function step() {
      if (now.isOver) return;
      const { actions, outputs } = plan();
      const recorded = episode?.actions[now.state.stepCount];
      const isAsRecorded = actions.every((action, agent) => action === recorded?.[agent]);
      const after = environment.step(now.state, actions);
      now = {
        state: after.state,
        memory: policy.nextState(outputs),
        rewards: after.rewards,
        total: now.total + after.rewards.reduce((sum, each) => sum + each, 0) / numAgents,
        isOver: after.isTerminal || after.isTruncated,
        isAsRecorded: now.isAsRecorded && isAsRecorded,
      };
      prepare();
    }

    // Steps of a recorded episode, played with its noise, whose actions are all the recorded ones;
    // some of them, where there is no time for all.
    function compare(which, milliseconds = Infinity) {
      const until = performance.now() + milliseconds;
      begin(which, "recorded", 1);
      let equal = 0;
      while (!now.isOver && now.isAsRecorded && performance.now() < until) {
        step();
        equal += Number(now.isAsRecorded);
      }
      const steps = episodes[which].actions.length;
      const isEqual = equal === steps && now.isOver;
      return { steps, equal, isEqual, isAsRecorded: now.isAsRecorded, total: now.total };
    }

    // The largest change of another agent's chances by any one choice at any step of an episode, in
    // the same step and in the next one.
    function reactions(which) {
      const found = { same_step: 0, next_step: 0 };
      const length = episodes[which].actions.length;
      for (let place = 0; place + 1 < length; place++) {
        const alternatives = walkTo(which, place).mask[0]
          .map((isAllowed, action) => (isAllowed ? action : -1))
          .filter((action) => action >= 0 && action !== plan().actions[0]);
        if (!alternatives.length) continue;
        for (let agent = 1; agent < numAgents; agent++) {
          choose(0, alternatives[0]);
          found.same_step = Math.max(found.same_step, shift(agent));
        }
        const usual = nextChances(which, place, null);
        const led = nextChances(which, place, alternatives[0]);
        if (usual && led) {
          const sums = usual.map((row, n) => row.reduce((sum, x, a) => sum + Math.abs(x - led[n][a]), 0) / 2);
          found.next_step = Math.max(found.next_step, ...sums.slice(1));
        }
      }
      return found;
    }

    function walkTo(which, place) {
      begin(which, "recorded", 1);
      while (now.state.stepCount < place) step();
      return plan();
    }

    function nextChances(which, place, action) {
      walkTo(which, place);
      if (action !== null) choose(0, action);
      step();
      return now.isOver ? null : environment.features(now.state).map((_, n) => probabilities(n));
    }

    return {
      environment,
      episodes,
      canReset,
      tellsAll,
      begin,
      plan,
      probabilities,
      chance,
      shift,
      choose,
      step,
      compare,
      reactions,
      chosen: (agent) => hand.get(agent) ?? null,
      get hasHand() {
        return hand.size > 0;
      },
      get now() {
        return now;
      },
    };
  }

  return { make, makeRandom };
})();
